"""The panel: reads run folders, steers training by files, never touches the training process."""
