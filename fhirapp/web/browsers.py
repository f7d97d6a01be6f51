"""The name of a browser, and of what it runs on, for people to know their own by."""

from __future__ import annotations

from fhirapp.web.texts import _

# The first that is found: most call themselves what others are called too.
_BROWSERS = (
    *(("Edg", "Edge"), ("OPR/", "Opera"), ("SamsungBrowser", "Samsung Internet")),
    *(("Firefox/", "Firefox"), ("FxiOS", "Firefox"), ("CriOS", "Chrome"), ("Chrome/", "Chrome")),
    *(("Safari/", "Safari"), ("curl/", "curl")),
)
_SYSTEMS = (
    *(("Windows", "Windows"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android")),
    *(("Mac OS X", "Mac"), ("CrOS", "ChromeOS"), ("Linux", "Linux")),
)


def browser(user_agent: str | None) -> str:
    """Return a browser's name from its User-Agent: Chrome on Windows."""
    text = user_agent or ""
    name = next((name for mark, name in _BROWSERS if mark in text), "")
    system = next((name for mark, name in _SYSTEMS if mark in text), "")
    if name and system:
        return _("%(browser)s on %(system)s", browser=name, system=system)
    return name or system or text.partition("(")[0].strip()[:40] or _("unknown browser")
