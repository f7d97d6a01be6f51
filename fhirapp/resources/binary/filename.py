"""The name under which a browser saves the bytes of a Binary. RFC 6266."""

from __future__ import annotations

# Of documents alone: a name must not make the system of who opens the file run it.
_EXTENSIONS = {
    "application/dicom": "dcm",
    "application/fhir+json": "json",
    "application/fhir+xml": "xml",
    "application/json": "json",
    "application/msword": "doc",
    "application/pdf": "pdf",
    "application/rtf": "rtf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/xml": "xml",
    "application/zip": "zip",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "image/bmp": "bmp",
    "image/gif": "gif",
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/tiff": "tiff",
    "image/webp": "webp",
    "text/csv": "csv",
    "text/html": "html",
    "text/plain": "txt",
    "text/rtf": "rtf",
    "text/xml": "xml",
    "video/mp4": "mp4",
    "video/mpeg": "mpeg",
}


def content_disposition(resource_id: str, content_type: str) -> str:
    """Return the header that has the bytes saved, not shown: attachment; filename="…".

    An id is of ASCII letters, digits, `-` and `.`, so it needs no escape and no filename*. It
    stands behind a word, so that no id can make a hidden file or a name that a system reserves.
    """
    essence = content_type.partition(";")[0].strip().lower()
    return f'attachment; filename="Binary-{resource_id}.{_EXTENSIONS.get(essence, "bin")}"'
