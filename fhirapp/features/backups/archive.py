"""The backup's file: a tar in gzip with its manifest first, encrypted on request.

`tar xzf` opens it without fhirapp. When it is read here, a member's name only selects one of the
known files, and the manifest's checksums must match. Encrypted files have the age format
(https://age-encryption.org/v1).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, BinaryIO, Self

import pyrage  # type: ignore[import-untyped]

from fhirapp.auth.oauth import signing_keys
from fhirapp.config import ConfigurationError
from fhirapp.disk import CHUNK, need_space, open_private
from fhirapp.features.backups.passphrase import sealed as sealed_by_passphrase
from fhirapp.store.migrate import UPGRADED_BY, is_newer, is_too_old

# The first bytes of gzip with deflate.
GZIP = b"\x1f\x8b\x08"
FORMAT = "fhirapp-backup-1"
DATABASE = "database.sqlite"
# The audit trail of SQLite.
TRAIL = "audit.sqlite"
# The dump of PostgreSQL, which pg_dump has compressed.
DUMP = "database.dump"
# Keys of the instance folder, with which values in the database are sealed.
KEYS = ("secret.key", signing_keys.NAME)
# The name of a schema of PostgreSQL that may be written into SQL.
NAMESPACE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
_MANIFEST = "manifest.json"
_MANIFEST_MOST = 1024 * 1024
# A higher level takes three times as long for a tenth less.
_LEVEL = 3


class InvalidBackup(ConfigurationError):
    """A file that is not a backup, or one that is damaged."""


@dataclass(frozen=True)
class BackupFile:
    """A file in the backup: its name there, its bytes and their SHA-256 in hexadecimal."""

    name: str
    size: int
    sha256: str

    @classmethod
    def of(cls, name: str, path: Path) -> BackupFile:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return cls(name, file.tell(), digest)


@dataclass(frozen=True)
class BackupManifest:
    """The manifest of a backup; taken is an instant.

    namespace is the schema of the tables on PostgreSQL, secret a fingerprint of FHIRAPP_SECRET
    there, job the id of the job that took the backup; each may be empty.
    """

    taken: str
    schema: str
    files: Sequence[BackupFile]
    fhirapp: str
    namespace: str = ""
    secret: str = ""
    job: str = ""

    @classmethod
    def new(
        cls, taken: str, schema: str, files: Sequence[BackupFile], **others: str
    ) -> BackupManifest:
        return cls(taken, schema, files, version("fhirapp"), **others)

    @property
    def is_dump(self) -> bool:
        """Whether it is of PostgreSQL."""
        return self.files[0].name == DUMP

    @property
    def size(self) -> int:
        return sum(member.size for member in self.files)

    def written(self) -> bytes:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=2).encode() + b"\n"


def pack(out: BinaryIO, manifest: BackupManifest, paths: Mapping[str, Path]) -> None:
    """Write a backup; paths has the manifest's files by name."""
    level = 0 if manifest.is_dump else _LEVEL
    with (
        gzip.GzipFile(fileobj=out, mode="wb", compresslevel=level, filename="", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as tar,
    ):
        content = manifest.written()
        _add(tar, _MANIFEST, len(content), io.BytesIO(content), manifest.taken)
        for member in manifest.files:
            with paths[member.name].open("rb") as file:
                _add(tar, member.name, member.size, file, manifest.taken)


def _add(tar: tarfile.TarFile, name: str, size: int, content: Any, taken: str) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    member.mtime = datetime.fromisoformat(taken).timestamp()
    tar.addfile(member, content)


class _FileHeader(tarfile.TarInfo):
    """The header of a plain file; links, and headers with content of their own, are refused."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if header.type != tarfile.REGTYPE or header.size < 0:
            raise ValueError(f"{header.name!r} is not a plain file")
        return header


def unpack(
    source: BinaryIO,
    name: str,
    folder: Path | None,
    check: Callable[[BackupManifest], None] = lambda _manifest: None,
) -> BackupManifest:
    """Read a whole backup, and write its files into an empty folder, if folder is not None.

    name is the backup's, for error messages; check may refuse what the manifest says. Raises
    InvalidBackup, ConfigurationError.
    """
    try:
        with (
            gzip.GzipFile(fileobj=source, mode="rb") as packed,
            tarfile.open(fileobj=packed, mode="r|", tarinfo=_FileHeader) as tar,
        ):
            manifest = _manifest(tar)
            check(manifest)
            if folder is not None:
                need_space(folder, manifest.size, "the backup's content")
            for member in manifest.files:
                _read_member(tar, member, folder)
            _expect_end(tar)
    except (gzip.BadGzipFile, zlib.error, EOFError, tarfile.TarError, ValueError) as error:
        raise InvalidBackup(f"{name} is not a backup, or it is damaged ({error}).") from None
    return manifest


def _next(tar: tarfile.TarFile, name: str, size: int | None, most: int) -> IO[bytes]:
    """Open the member that must come next, of a size if one is stated. Raises ValueError."""
    header = tar.next()
    if header is None or header.name != name:
        raise ValueError(f"{name} is expected, and {header and header.name!r} follows")
    if header.size > most or size not in (None, header.size):
        raise ValueError(f"{name} has another size than it should")
    content = tar.extractfile(header)
    assert content is not None
    return content


def _manifest(tar: tarfile.TarFile) -> BackupManifest:
    """Read the manifest. Raises ValueError, TarError, InvalidBackup."""
    stated = json.loads(_next(tar, _MANIFEST, None, _MANIFEST_MOST).read())
    form = stated.get("format") if isinstance(stated, dict) else None
    if not isinstance(form, str) or not form.startswith("fhirapp-backup-"):
        raise ValueError("it has no fhirapp manifest")
    schema, release = str(stated.get("schema")), stated.get("fhirapp")
    if form != FORMAT or is_newer(schema):
        raise InvalidBackup(
            f"The backup was made by a newer fhirapp ({release}, schema {schema}); restore it with "
            "that version."
        )
    if is_too_old(schema):
        raise InvalidBackup(
            f"The backup was made by an older fhirapp ({release}, schema {schema}); restore it "
            f"with fhirapp {UPGRADED_BY}, which upgrades it, and take a new backup."
        )
    try:
        files = [BackupFile(**file) for file in stated["files"]]
        manifest = BackupManifest(
            *(stated["taken"], stated["schema"], files, stated["fhirapp"]),
            *(str(stated.get(name, "")) for name in ("namespace", "secret", "job")),
        )
        datetime.fromisoformat(manifest.taken)
    except (KeyError, TypeError):
        raise ValueError("its manifest is not complete") from None
    names = [member.name for member in files]
    # On PostgreSQL the keys are in the database.
    is_sqlite = names[:1] == [DATABASE] and all(name in (TRAIL, *KEYS) for name in names[1:])
    if not is_sqlite and (names != [DUMP] or not NAMESPACE.fullmatch(manifest.namespace)):
        raise ValueError("it holds other files than a backup does")
    is_plausible = all(
        type(member.size) is int and member.size >= 0 and isinstance(member.sha256, str)
        for member in files
    )
    if len({*names}) < len(names) or not is_plausible:
        raise ValueError("its manifest contradicts itself")
    return manifest


def _read_member(tar: tarfile.TarFile, member: BackupFile, folder: Path | None) -> None:
    content = _next(tar, member.name, member.size, member.size)
    digest = hashlib.sha256()
    with ExitStack() as stack:
        file = None
        if folder:
            file = stack.enter_context(open(folder / member.name, "xb", opener=open_private))
        while piece := content.read(CHUNK):
            digest.update(piece)
            if file:
                file.write(piece)
        if file:
            file.flush()
            os.fsync(file.fileno())
    if digest.hexdigest() != member.sha256:
        raise ValueError(f"{member.name} has another checksum than the manifest says")


def _expect_end(tar: tarfile.TarFile) -> None:
    """Read the zeros that end a tar, and with them gzip's own checksum."""
    # The stream itself: to tarfile, a block that is no header is an end too.
    stream: Any = tar.fileobj
    if stream.read(tarfile.RECORDSIZE + 3 * tarfile.BLOCKSIZE).strip(b"\0") or stream.read(1):
        raise ValueError("something follows its last file")


BEGIN = b"-----BEGIN AGE ENCRYPTED FILE-----\n"
_END = b"-----END AGE ENCRYPTED FILE-----\n"
# The key takes about 400 bytes.
_HEAD_BYTES = 4096


class WrongPassphrase(ConfigurationError):
    """The passphrase does not open the file."""


class _Writer:
    """A file that keeps its first error, since the library reports none for the last piece."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: Exception | None = None

    def write(self, piece: bytes) -> int:
        try:
            return self._file.write(piece)
        except Exception as error:
            self.error = self.error or error
            raise

    def flush(self) -> None:
        """Do nothing: the file is flushed at its end."""


def seal(plain: BinaryIO, out: BinaryIO, passphrase: str) -> None:
    """Encrypt what a file holds into another. Raises OSError."""
    identity = pyrage.x25519.Identity.generate()
    out.write(sealed_by_passphrase(str(identity).encode(), passphrase))
    writer = _Writer(out)
    _run(pyrage.encrypt_io, writer, plain, [identity.to_public()])


def unseal(sealed: BinaryIO, name: str, out: BinaryIO, passphrase: str) -> None:
    """Decrypt a file into another. Raises InvalidBackup, WrongPassphrase, OSError.

    name is the sealed file's, for error messages. After an error, what was written so far must not
    be used.
    """
    head = sealed.read(_HEAD_BYTES)
    end = head.find(_END) + len(_END)
    if end < len(_END):
        raise InvalidBackup(f"{name} is not a backup, or its beginning is damaged.")
    try:
        key = pyrage.passphrase.decrypt(head[:end], passphrase)
    except pyrage.DecryptError:
        raise WrongPassphrase(
            f"The passphrase does not open {name}: it is the wrong one, or the file's beginning "
            "is damaged."
        ) from None
    sealed.seek(end)
    writer = _Writer(out)
    try:
        identity = pyrage.x25519.Identity.from_str(key.decode())
        _run(pyrage.decrypt_io, writer, sealed, [identity])
    except (pyrage.DecryptError, pyrage.IdentityError, ValueError) as error:
        raise InvalidBackup(f"{name} is damaged ({error}).") from None
    except OSError as error:
        if writer.error is None and error.errno is None:
            raise InvalidBackup(f"{name} is damaged: {error}, or its end is missing.") from None
        raise


def _run(work: Any, writer: _Writer, source: BinaryIO, keys: list[Any]) -> None:
    """Have the library stream; an error of the writer's is raised as it came."""
    try:
        work(source, writer, keys)
    except Exception:
        if writer.error is None:
            raise
    if writer.error is not None:
        raise writer.error
