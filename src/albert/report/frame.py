"""A body comes in; one HTML file goes out that needs no network and runs no script but its own."""

import base64
import hashlib

from albert.report.markup import Html, tag
from albert.report.style import STYLE


def frame_page(body: Html, *, title: str, style: str = "", script: str = "") -> str:
    """The whole file: `style` is added to what all pages look like, `script` is all that may run."""
    assert "</" not in style + script, "what closes an element would end the style or the script"
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_format_policy(script)}">'
        f"{tag('title', title)}<style>{STYLE}{style}</style>"
    )
    tail = f"<script>{script}</script>" if script else ""
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}{tail}</body></html>\n'


def _format_policy(script: str) -> str:
    """Nothing is fetched, and no script runs but this one."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"'sha256-{digest}'" if script else "'none'"
    return f"default-src 'none'; base-uri 'none'; style-src 'unsafe-inline'; script-src {allowed}"
