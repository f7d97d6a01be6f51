"""Words of scans, recognized by Tesseract where it is installed: they may be wrong.

A page that has hardly any text of its own is read by a process of its own, limited in time and
memory, which can change no file, read none of the server's and reach no network (confine.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fhirapp.documents.media import ExtractedText, Unread, Unreadable, tidy

# How the pictures begin that Tesseract of Debian reads: PNG, JPEG, TIFF.
PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\0", b"MM\0*")
# Letters and digits: a scan may have a stamp, a fax its heading.
_LEAST_TEXT = 100
MAX_PAGES, PAGE_SECONDS, DOCUMENT_SECONDS, MEGABYTES = 50, 60, 300, 1024
# Of the answer for a page.
_MAX_BYTES = 4_000_000
_LAUNCHER = Path(__file__).with_name("confine.py")
_PASSED_ON = ("PATH", "TESSDATA_PREFIX")


class _Unusable(Unreadable):
    """No scan can be read; advice says what to do."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(reason)
        self.advice = advice


def recognized(
    texts: Sequence[str], picture: Callable[[int], bytes], languages: str
) -> ExtractedText:
    """Return the text of a document of pages, some of it recognized in pictures, from page 1.

    Raises Unreadable where there is none, and something failed.
    """
    until = time.monotonic() + DOCUMENT_SECONDS
    found: list[str] = []
    unread: list[Unread] = []
    scans, is_machine_read = 0, False
    for number, own in enumerate(texts, 1):
        found.append(own)
        if sum(map(str.isalnum, own)) >= _LEAST_TEXT:
            continue
        scans += 1
        try:
            left = until - time.monotonic()
            if scans > MAX_PAGES:
                raise Unreadable(f"text recognition stops after {MAX_PAGES} pages")
            if left <= 0:
                raise Unreadable(f"text recognition stops after {DOCUMENT_SECONDS} s")
            text = tidy(_recognize(picture(number), languages, min(left, PAGE_SECONDS)))
        except Unreadable as error:
            unread.append(Unread(f"page {number}", str(error)))
            continue
        # A page that is short and no scan is not called machine-read.
        if not {*text.casefold().split()} <= {*own.casefold().split()}:
            found.append(text)
            is_machine_read = True
    whole = tidy("\n".join(found))
    if unread and not whole:
        raise Unreadable(unread[0].reason)
    return ExtractedText(whole, tuple(unread), is_machine_read)


def _recognize(picture: bytes, languages: str, seconds: float) -> str:
    """Return what Tesseract reads in a picture. Raises Unreadable."""
    # 1: rotated pages are detected.
    arguments = ["stdin", "stdout", "-l", languages, "--psm", "1"]
    return _tesseract(arguments, picture, seconds).decode("utf-8", "replace")


def _tesseract(arguments: list[str], picture: bytes, seconds: float) -> bytes:
    """Return the output of Tesseract. Raises Unreadable."""
    if sys.platform != "linux":
        raise _Unusable("scans are read on Linux only", "run the server on Linux")
    if (program := shutil.which("tesseract")) is None:
        raise _Unusable("tesseract is not installed", "on Debian: apt-get install tesseract-ocr")
    # Its time on the processor ends after ours, so that the reason is ours.
    limits = map(str, (MEGABYTES, PAGE_SECONDS + 1, _MAX_BYTES))
    # In memory: a limit of the size of files holds for it, and nothing of it is on a disk.
    with os.fdopen(os.memfd_create("text"), "w+b") as text:
        try:
            subprocess.run(
                [sys.executable, "-P", str(_LAUNCHER), *limits, program, *arguments],
                input=picture,
                stdout=text,
                # Error output may quote a document.
                stderr=subprocess.DEVNULL,
                check=True,
                env=_environment(),
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            raise Unreadable(f"text recognition takes longer than {seconds:.0f} s") from None
        except (OSError, subprocess.CalledProcessError) as error:
            status = getattr(error, "returncode", "an error of the system")
            if status == os.EX_NOPERM:
                raise _Unusable(
                    "tesseract could read the server's files",
                    "use Linux 5.13 or later with Landlock, which a container must allow",
                ) from None
            raise Unreadable(f"text recognition failed: tesseract ended with {status}") from None
        text.seek(0)
        return text.read()


def _environment() -> dict[str, str]:
    """Return the environment of Tesseract: none of the server's secrets, one thread."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**kept, "LC_ALL": "C.UTF-8", "OMP_THREAD_LIMIT": "1"}


def why_unusable(languages: str) -> str:
    """Return why scans cannot be read in these languages and what to do, "" where they can."""
    try:
        listed = _tesseract(["--list-langs"], b"", PAGE_SECONDS).split()
    except _Unusable as error:
        return f"{error}; {error.advice}"
    except Unreadable:
        return "tesseract does not work; install it again"
    lacking = [code for code in languages.split("+") if code.encode() not in listed]
    if not lacking:
        return ""
    packages = " ".join(f"tesseract-ocr-{code.lower().replace('_', '-')}" for code in lacking)
    return f"tesseract lacks {', '.join(lacking)}; on Debian: apt-get install {packages}"
