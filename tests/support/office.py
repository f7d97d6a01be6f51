"""Word and OpenDocument files, made of the XML in them."""

from __future__ import annotations

import io
import zipfile

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
ODT = "application/vnd.oasis.opendocument.text"
TRANSITIONAL = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PREFIXES = (
    *("m", "mc", "a", "r", "v", "c", "dgm", "o", "w14"),
    *("text", "table", "draw", "office", "style", "svg", "dc", "fo", "form", "manifest"),
)
_NAMESPACES = " ".join(f'xmlns:{prefix}="urn:{prefix}"' for prefix in _PREFIXES)


def _zipped(files: dict[str, str]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content, zipfile.ZIP_STORED if name == "mimetype" else None)
    return file.getvalue()


def word(body: str, namespace: str = TRANSITIONAL, external: str = "", **parts: str) -> bytes:
    """Return a Word document; parts are what is in its other parts, by the kind of relation."""
    relations = "".join(
        f'<Relationship Type="{RELATIONS}/{kind.rstrip("0123456789")}" Target="{kind}.xml"/>'
        for kind in parts
    )
    main = f'<Relationship Type="{RELATIONS}/officeDocument" Target="word/document.xml"/>'
    files = {
        "_rels/.rels": f"<Relationships>{main}</Relationships>",
        "word/_rels/document.xml.rels": f"<Relationships>{relations}{external}</Relationships>",
    }
    for name, content in {"document": f"<w:body>{body}</w:body>", **parts}.items():
        files[f"word/{name}.xml"] = (
            f'<w:root xmlns:w="{namespace}" {_NAMESPACES}>{content}</w:root>'
        )
    return _zipped(files)


def p(*runs: str, style: str = "") -> str:
    return f"<w:p>{style and f'<w:pPr>{style}</w:pPr>'}{''.join(runs)}</w:p>"


def r(text: str, marks: str = "") -> str:
    return f'<w:r>{marks and f"<w:rPr>{marks}</w:rPr>"}<w:t xml:space="preserve">{text}</w:t></w:r>'


def opendocument(body: str, automatic: str = "", common: str = "", manifest: str = "") -> bytes:
    """Return an OpenDocument text: its body, its own styles, and what is in styles.xml."""
    root = f"<office:root {_NAMESPACES}>{{}}</office:root>"
    content = f"{automatic}<office:body><office:text>{body}</office:text></office:body>"
    return _zipped(
        {
            "mimetype": ODT,
            "META-INF/manifest.xml": root.format(manifest),
            "styles.xml": root.format(common),
            "content.xml": root.format(content),
        }
    )
