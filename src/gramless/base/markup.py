"""Text inside XML and HTML."""

from __future__ import annotations

import html
import re

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escape(text: object) -> str:
    """Return text that XML takes as text; characters that it forbids become a mark.

    Examples
    --------
    >>> escape('<a & "b">')
    '&lt;a &amp; &quot;b&quot;&gt;'
    """
    return html.escape(_FORBIDDEN.sub("\ufffd", str(text)))
