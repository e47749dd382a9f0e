"""The panel as a hosted page (a Hugging Face Space): a recorded run is played, anyone may look, nothing can be done."""

import tempfile
from pathlib import Path

from minigrpo.ui.panel import serve

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as empty:  # never the runs that may lie here
        serve(Path(empty), host="0.0.0.0", port=7860, public=True, recorded=True)
