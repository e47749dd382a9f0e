"""The one page: a Gradio app that is a single gr.HTML, whose own JavaScript (web/) draws all and asks our handlers."""

import mimetypes
from collections.abc import Sequence
from pathlib import Path

import gradio
from fastapi import FastAPI
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles

from minigrpo.ui.ask import Handler

WEB = Path(__file__).parent / "web"
_START = (
    "import(new URL('web/main.js', document.baseURI)).then(m => m.start(element, server)).catch(e => {"
    " element.querySelector('.mg').textContent = 'The panel could not be loaded: ' + e; throw e; });"
)
_FRAME = "footer { display: none !important } .gradio-container { min-height: 100vh }"


def build(functions: Sequence[Handler], host: str, port: int) -> FastAPI:
    """The app, with nothing of Gradio's left to its defaults or to the environment."""
    with gradio.Blocks(title="minigrpo", analytics_enabled=False, fill_width=True) as blocks:
        gradio.HTML(
            html_template='<div class="mg">Loading the panel</div>', js_on_load=_START, apply_default_css=False,
            server_functions=list(functions),
        )  # fmt: skip
    # Gradio's event loop looks for work a thousand times a second (4 % of a core); this page sends it none.
    blocks._queue.sleep_when_free = blocks._queue.progress_update_sleep_when_free = 3600.0
    for suffix, kind in ((".js", "text/javascript"), (".css", "text/css"), (".svg", "image/svg+xml")):
        mimetypes.add_type(kind, suffix)  # Windows' registry may say otherwise, and browsers then refuse
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.mount("/web", StaticFiles(directory=WEB))
    app.add_route("/favicon.ico", lambda request: FileResponse(WEB / "favicon.svg"))
    return gradio.mount_gradio_app(
        app, blocks, path="/", server_name=host, server_port=port, footer_links=[], run_history=False, root_path="",
        allowed_paths=[], blocked_paths=["/"], show_error=False, max_file_size=1, ssr_mode=False,
        enable_monitoring=False, pwa=False, mcp_server=False, css=_FRAME,
        theme=gradio.themes.Base(font=[gradio.themes.Font("system-ui")], font_mono=[gradio.themes.Font("monospace")]),
        app_kwargs={"docs_url": None, "redoc_url": None, "openapi_url": None},
    )  # fmt: skip
