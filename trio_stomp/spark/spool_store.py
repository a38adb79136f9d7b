"""The store of a spool: objects under names, on any file system that pyarrow or fsspec can reach.

An object is there whole or not at all. Object stores (S3, GCS, ABFS) give that by themselves; elsewhere an object is
written under another name, flushed to the disk, and renamed.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
import uuid
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
from pyarrow import fs

from trio_stomp.printable import without_arguments
from trio_stomp.spark.conditional_put import put_if_new
from trio_stomp.spark.option_reader import OptionError
from trio_stomp.spark.process_identity import has_certainly_ended, process_identity

__all__ = [
    "SpoolDamaged",
    "SpoolError",
    "SpoolFull",
    "SpoolLocation",
    "SpoolSilent",
    "SpoolStore",
    "StoreClock",
    "StoredObject",
]

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

T = TypeVar("T")
R = TypeVar("R")

# Here an object appears when its upload is complete; everything else is written under another name and renamed.
_OBJECT_STORES: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "memory"})
_BY_SETTINGS: Final = {"s3": "S3FileSystem", "gs": "GcsFileSystem", "gcs": "GcsFileSystem", "abfs": "AzureFileSystem"}
# An object of up to 10 MB is then one request. Otherwise pyarrow uploads even the smallest in parts: three requests.
_ONE_REQUEST: Final = "allow_delayed_open"
_HAS_ONE_REQUEST: Final = int(pa.__version__.partition(".")[0]) >= 21  # noqa: PLR2004  # a version
_BUCKETED: Final = frozenset({"s3", "gs", "gcs"})
_BY_PYARROW: Final = frozenset({"s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs"})
_FLAGS: Final = {"true": True, "false": False}
_HALF: Final = ".tmp"
# A half-written file whose writer cannot be asked, because it ran on another machine, is left alone for this time.
_HALF_SECONDS: Final = 3600.0
# Some file systems have no hard links.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
# Some cannot flush a folder.
_NO_FLUSH: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
# Where a store cannot refuse to replace an object, this is the time in which a rival's object would appear.
_RIVAL_SECONDS: Final = 0.5
# A request to an object store is mostly waiting.
_REQUESTS: Final = 16

_ADVICE: Final = {
    errno.ENOSPC: "make room there, or lower maxSpoolBytes",
    errno.EDQUOT: "raise the quota, or lower maxSpoolBytes",
    errno.EACCES: "give this user the right to write there, or choose another spoolLocation",
    errno.EPERM: "give this user the right to write there, or choose another spoolLocation",
    errno.EROFS: "it is mounted read-only: mount it for writing, or choose another spoolLocation",
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), "a part of the path is a file; choose another spoolLocation"),
    errno.ENOENT: "is the path right, and shared with this machine? If the spool was deleted or moved, put it back",
}


class SpoolError(RuntimeError):
    """The spool cannot be used; the text names the object, the reason, and what to do."""

    @property
    def may_pass(self) -> bool:
        """Whether the store did not answer, or refused for a reason that may be gone a moment later."""
        return isinstance(self.__cause__, OSError) and self.__cause__.errno not in _ADVICE


class SpoolFull(SpoolError):
    """The disk of the spool is full, or a quota is used up. It can be written to as soon as there is space."""


class SpoolSilent(SpoolError):
    """The store does not answer."""

    @property
    def may_pass(self) -> bool:
        """Whether it may answer a moment later: yes."""
        return True


class SpoolDamaged(SpoolError):
    """An object of the spool does not have the content that it was written with."""

    def __init__(self, path: str, reason: object) -> None:
        super().__init__(f"cannot read {path} of the spool: {reason}; it is damaged: restore it from a backup")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object of a store.

    Attributes:
        name: Its name below the store's folder.
        size: How many bytes it has.
        changed: When it was written, in seconds since 1970; 0 if the store does not say.
    """

    name: str
    size: int
    changed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolLocation:
    """Where a spool is: the option ``spoolLocation``, and what is needed to reach it.

    Attributes:
        uri: A URI such as ``s3://bucket/spool``, or an absolute path.
        settings: Arguments of the file system; never shown, they may hold keys.
    """

    uri: str
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, uri: str, settings: Iterable[tuple[str, str]] = ()) -> SpoolLocation:
        """Check a location, without touching it.

        Raises:
            OptionError: It is not one.
        """
        try:
            parts = urlsplit(uri)
        except ValueError:
            raise OptionError("the option 'spoolLocation' cannot be read; expected a URI or an absolute path") from None
        # abfss://container@account.dfs.core.windows.net/path is the usual form on Azure.
        is_azure = parts.scheme in {"abfs", "abfss"} and parts.password is None
        if "@" in parts.netloc and not is_azure:
            raise OptionError(
                "the option 'spoolLocation' holds a key; give it in the environment, or in the option 'spoolOptions'"
            )
        shown = without_arguments(uri)
        if parts.scheme in {"", "file"}:
            is_uri = "://" in uri
            path = parts.path if is_uri else uri.removeprefix("file:")
            # file://localhost/path is file:///path; see RFC 8089.
            if not path.startswith("/") or (is_uri and parts.netloc not in {"", "localhost"}):
                raise OptionError(
                    f"the option 'spoolLocation' must be an absolute path, the same on every machine, or a URI such as "
                    f"s3://bucket/spool, got {shown!r}"
                )
            if names := ", ".join(repr(name) for name, _ in settings):
                raise OptionError(
                    f"the option 'spoolOptions' has {names}, but 'spoolLocation' is the local path {path!r}, whose "
                    "file system has no arguments; leave out 'spoolOptions', or give a URI such as s3://bucket/spool"
                )
            return cls(uri=path)
        settings = tuple(settings)
        if parts.scheme == "dbfs" and not settings:
            raise OptionError(
                "the option 'spoolLocation' must be a path on Databricks, such as "
                f"/Volumes/catalog/schema/volume/spool, got {shown!r}, which only Hadoop's file systems can read"
            )
        _check_scheme(parts.scheme, shown)
        if parts.scheme in _BUCKETED and not parts.netloc:
            raise OptionError(
                f"the option 'spoolLocation' must name a bucket, such as {parts.scheme}://bucket/spool, got {shown!r}"
            )
        return cls(uri=uri, settings=settings)

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine's file system."""
        return self.uri.startswith("/")

    @property
    def shown(self) -> str:
        """The URI without its arguments: there may be keys among them."""
        return without_arguments(self.uri)

    def open(self, *folders: str) -> SpoolStore:
        """The store in a folder of it.

        Raises:
            SpoolError: Its file system cannot be reached.
        """
        scheme = "file" if self.is_local else urlsplit(self.uri).scheme
        try:
            system, path = _file_system(scheme, self.uri, _typed(self.settings))
        except (OSError, ValueError, TypeError, ImportError, pa.ArrowException) as error:
            # PyArrow repeats what it cannot read, in a traceback too: the URI, or that of a proxy.
            said = reason = str(error)
            for hidden in (self.uri.partition("?")[2], dict(self.settings).get("proxy_options")):
                reason = reason.replace(hidden, "...") if hidden else reason
            raise SpoolError(
                f"cannot open the spool {self.shown}: {reason}; check spoolLocation, spoolOptions, and the credentials "
                "of this machine"
            ) from (error if reason == said else None)
        return SpoolStore(system, "/".join([path.rstrip("/"), *folders]), scheme, self)


def _check_scheme(scheme: str, shown: str) -> None:
    """Raise OptionError if there is no such kind of file system."""
    if scheme in _BY_PYARROW:
        return
    try:
        import fsspec  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415  # optional: see below
    except ImportError:
        known: list[str] = []
    else:
        known = fsspec.available_protocols()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # it has no types
    if scheme not in known:
        listed = ", ".join(sorted(_BY_PYARROW))
        raise OptionError(
            f"the option 'spoolLocation' has the unknown scheme {scheme!r}, got {shown!r}; expected an "
            f"absolute path, or a URI of {listed}, or of another file system that the package fsspec supports"
        )


def _typed(settings: Collection[tuple[str, str]]) -> dict[str, object]:
    """Arguments as their file system expects them: it would take the text "false" for true.

    Raises:
        ValueError: A timeout is not a number.
    """
    typed: dict[str, object] = {name: _FLAGS.get(value.lower(), value) for name, value in settings}
    for name, value in settings:
        if name.endswith("_timeout"):
            try:
                typed[name] = float(value)
            except ValueError:
                raise ValueError(f"{name!r} must be a number of seconds, got {value!r}") from None
    return typed


def _file_system(scheme: str, uri: str, settings: dict[str, object]) -> tuple[fs.FileSystem, str]:
    if scheme == "file":
        return fs.LocalFileSystem(), uri
    plain = urlsplit(uri)
    is_ours_to_choose = scheme == "s3" and _HAS_ONE_REQUEST and _ONE_REQUEST not in plain.query
    if settings and scheme in _BY_SETTINGS:
        kind: type[fs.FileSystem] = getattr(fs, _BY_SETTINGS[scheme])
        chosen: dict[str, object] = {_ONE_REQUEST: True} if is_ours_to_choose else {}
        # On Azure, the host may follow: abfs://container@account.dfs.core.windows.net/path.
        in_uri = _typed(parse_qsl(plain.query))
        return kind(**{**chosen, **in_uri, **settings}), (plain.username or plain.netloc) + plain.path
    if not settings and scheme in _BY_PYARROW:
        if is_ours_to_choose:
            uri += f"{'&' if plain.query else '?'}{_ONE_REQUEST}=true"
        return fs.FileSystem.from_uri(uri)
    try:
        import fsspec  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415  # optional: pyarrow reaches the usual stores
    except ImportError:
        raise ImportError(f"spoolOptions for {scheme} require the package fsspec; run: pip install fsspec") from None
    found, path = fsspec.core.url_to_fs(uri, **settings)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # it has no types
    return fs.PyFileSystem(fs.FSSpecHandler(found)), str(path)  # type: ignore[abstract]  # the stubs miss its methods


class SpoolStore:
    """Objects under names.

    Each method raises `SpoolError` if the store fails. After a write that has failed, the object may exist or not.

    Args:
        system: The file system.
        folder: The folder in it.
        scheme: The kind of file system, as URIs name it.
        location: How it was reached, for requests that pyarrow cannot make.
    """

    def __init__(self, system: fs.FileSystem, folder: str, scheme: str, location: SpoolLocation | None = None) -> None:
        self._system = system
        self._scheme = scheme
        self._location = location
        self._folders: set[str] = set()
        self.folder = folder

    @property
    def is_local(self) -> bool:
        """Whether it is in the file system of this machine, where listing costs next to nothing."""
        return self._scheme == "file"

    def path(self, name: str) -> str:
        """Where an object is, for people and for `open_file`."""
        return f"{self.folder}/{name}"

    def objects(self, below: str = "") -> list[StoredObject]:
        """All objects, also those in folders; half-written ones are none."""
        found = self._list(f"{self.folder}/{below}" if below else self.folder)
        start = len(self.folder) + 1
        return [
            StoredObject(name=each.path[start:], size=each.size or 0, changed=(each.mtime_ns or 0) / 1e9)
            for each in found
            if each.type == fs.FileType.File and not each.path.endswith(_HALF)
        ]

    def _list(self, folder: str, *, recursive: bool = True) -> list[fs.FileInfo]:
        selector = fs.FileSelector(folder, allow_not_found=True, recursive=recursive)
        try:
            with suppress(FileNotFoundError):
                return self._system.get_file_info(selector)
            # pyarrow fails where a folder appears while it looks, as when two queries begin at once.
            return self._system.get_file_info(selector)
        except OSError as error:
            raise _wrapped("list", folder, error) from error

    def folders(self) -> list[str]:
        """The names of the folders directly in it."""
        found = self._list(self.folder, recursive=False)
        return sorted(each.base_name for each in found if each.type == fs.FileType.Directory)

    def put(self, name: str, octets: bytes | pa.Buffer, *, durable: bool = True) -> None:
        """Write an object whole; when this returns, it is there also after a power cut.

        Args:
            name: Its name. An object of that name is replaced.
            octets: What is in it.
            durable: Whether to wait until it is on the disk.
        """
        path = self.path(name)
        try:
            if self.is_local:
                self._put_locally(path, octets, durable=durable)
            elif self._scheme in _OBJECT_STORES:
                self._write(path, octets)
            else:
                self._put_by_renaming(path, octets)
        except OSError as error:
            # The folder may be gone, and then it has to be made again.
            self._folders.clear()
            raise _wrapped("write", path, error) from error

    def _put_by_renaming(self, path: str, octets: bytes | pa.Buffer) -> None:
        self._make_folder(path)
        half = _half(path)
        try:
            self._write(half, octets)
            self._system.move(half, path)
        except OSError:
            with suppress(OSError):
                self._system.delete_file(half)
            raise

    def _put_locally(self, path: str, octets: bytes | pa.Buffer, *, durable: bool) -> None:
        self._make_folder(path)
        half = _half(path)
        try:
            _write_file(half, octets, durable=durable)
            os.replace(half, path)  # noqa: PTH105  # a hundred times for each second
        except OSError:
            # On a disk that is full, each attempt would leave a file that takes more space.
            with suppress(OSError):
                os.unlink(half)  # noqa: PTH108  # see above
            raise
        if durable:
            _flush_folder(os.path.dirname(path))  # noqa: PTH120  # see above

    def create(self, name: str, octets: bytes) -> bool:
        """Write an object unless there is one of that name; return whether this call has written it.

        Of several processes that try at once, one succeeds: by a hard link on file systems, by If-None-Match on S3 if
        botocore is installed. Other stores cannot refuse to replace an object; there, the one that wrote last succeeds,
        and the others see that after half a second.
        """
        path = self.path(name)
        try:
            if self.is_local:
                return self._create_locally(path, octets)
            if self._location is not None:
                written = put_if_new(self._location.uri, dict(self._location.settings), path, octets)
                if written is not None:
                    return written
            if self._system.get_file_info(path).type != fs.FileType.NotFound:
                return False
        except OSError as error:
            self._folders.clear()
            raise _wrapped("write", path, error) from error
        self.put(name, octets)
        time.sleep(_RIVAL_SECONDS)
        return self.get(name) == octets

    def _create_locally(self, path: str, octets: bytes) -> bool:
        self._make_folder(path)
        half = _half(path)
        try:
            _write_file(half, octets, durable=True)
            try:
                os.link(half, path)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                return self._create_without_links(path, octets)
        finally:
            with suppress(OSError):
                os.unlink(half)  # noqa: PTH108  # as in put()
        _flush_folder(os.path.dirname(path))  # noqa: PTH120  # as in put()
        return True

    def _create_without_links(self, path: str, octets: bytes) -> bool:
        """Create a file under its final name. A crash meanwhile leaves it damaged, which is why links are better."""
        try:
            number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return False
        try:
            with os.fdopen(number, "wb") as file:
                file.write(octets)
                file.flush()
                _flush(file.fileno())
        except OSError:
            # On a disk that is full, half of it would stay, and seem to be damaged.
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108  # as in put()
            raise
        _flush_folder(os.path.dirname(path))  # noqa: PTH120  # as in put()
        return True

    def remove_halves(self) -> int:
        """Delete half-written files of processes that have ended; return how many.

        Only those on this machine are known to have ended. Files of others are deleted when they have not changed for
        an hour, by the times of the store.
        """
        if self._scheme in _OBJECT_STORES:
            return 0
        found = self._list(self.folder)
        newest = max((each.mtime_ns or 0 for each in found), default=0) / 1e9
        left = [
            each.path
            for each in found
            if each.type == fs.FileType.File
            and each.path.endswith(_HALF)
            and (has_certainly_ended(_writer_of(each.path)) or newest - (each.mtime_ns or 0) / 1e9 > _HALF_SECONDS)
        ]
        for path in left:
            with suppress(OSError):
                self._system.delete_file(path)
        return len(left)

    def time(self) -> float:
        """Return the time of the store, in seconds since 1970: it writes an object, and deletes it.

        The clocks of machines differ, so the times of objects are only compared with this one.
        """
        name = f"time-{uuid.uuid4().hex[:8]}{_HALF}"
        self.put(name, b"", durable=False)
        try:
            return (self._system.get_file_info(self.path(name)).mtime_ns or 0) / 1e9
        except OSError as error:
            raise _wrapped("read", self.path(name), error) from error
        finally:
            self.delete([name])

    def _make_folder(self, path: str) -> None:
        folder = path.rpartition("/")[0]
        if folder in self._folders:
            return
        self._system.create_dir(folder, recursive=True)
        if self.is_local:
            # New names in the folders above must outlive a power cut too.
            above = folder
            while len(above) >= len(self.folder):
                above = os.path.dirname(above)  # noqa: PTH120  # text all over
                _flush_folder(above)
        self._folders.add(folder)

    def _write(self, path: str, octets: bytes | pa.Buffer) -> None:
        with self._system.open_output_stream(path, compression=None) as file:
            file.write(octets)

    def get(self, name: str) -> bytes | None:
        """What is in an object; None if there is no such object."""
        path = self.path(name)
        try:
            with self._system.open_input_stream(path, compression=None) as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _wrapped("read", path, error) from error

    def put_json(self, name: str, value: object, *, durable: bool = True) -> None:
        """Write an object whose content is JSON, like `put`."""
        self.put(name, json.dumps(value).encode(), durable=durable)

    def get_json(self, name: str) -> Json:
        """Return what the JSON in an object says; None if there is no such object.

        Raises:
            SpoolDamaged: The object is not JSON.
            SpoolError: It cannot be read.
        """
        content = self.get(name)
        if content is None:
            return None
        try:
            found: Json = json.loads(content)
        except ValueError as error:
            raise SpoolDamaged(self.path(name), error) from error
        return found

    def open_file(self, path: str) -> pa.NativeFile:
        """An object, for reading some of it; local ones are mapped into memory.

        Args:
            path: What `path` has returned, perhaps on another machine.
        """
        try:
            return pa.memory_map(path) if self.is_local else self._system.open_input_file(path)
        except OSError as error:
            raise _wrapped("read", path, error) from error

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; those that are not there need not be."""
        self.each(self._delete, names)

    def _delete(self, name: str) -> None:
        try:
            self._system.delete_file(self.path(name))
        except FileNotFoundError:
            return
        except OSError as error:
            raise _wrapped("delete", self.path(name), error) from error

    def delete_empty_folder(self, name: str) -> None:
        """Delete a folder in which nothing will be written again. One that has objects stays as it is.

        Object stores have no folders, but pyarrow leaves an object in place of one when its last object is deleted.
        """
        if self.objects(name):
            return
        try:
            self._system.delete_dir(self.path(name))
        except FileNotFoundError:
            return
        except OSError as error:
            raise _wrapped("delete", self.path(name), error) from error
        finally:
            self._folders.discard(self.path(name))

    def each(self, do: Callable[[T], R], what: Iterable[T]) -> list[R]:
        """Do something with each of several things, many at a time where each is a request over the network."""
        things = list(what)
        if self.is_local or len(things) < 2:  # noqa: PLR2004  # one needs no thread
            return [do(each) for each in things]
        with ThreadPoolExecutor(min(_REQUESTS, len(things))) as pool:
            return list(pool.map(do, things))


class StoreClock:
    """The time of a store, asked once, and counted on from there by a clock that is never set."""

    def __init__(self, store: SpoolStore, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._asked = monotonic()
        self._then = store.time()

    def __call__(self) -> float:
        """Return the time of the store, in seconds since 1970."""
        return self._then + self._monotonic() - self._asked


def _half(path: str) -> str:
    """Another name for an object that is not whole yet; two processes may write the same object."""
    return f"{path}.{process_identity()}.{uuid.uuid4().hex[:8]}{_HALF}"


def _writer_of(half: str) -> str:
    return half.split(".")[-3] if half.count(".") > 2 else ""  # noqa: PLR2004  # see _half()


def _write_file(path: str, octets: bytes | pa.Buffer, *, durable: bool) -> None:
    with open(path, "wb") as file:  # noqa: PTH123  # a hundred times for each second
        file.write(octets)
        file.flush()
        if durable:
            _flush(file.fileno())


def _flush(number: int) -> None:
    """Have an open file survive a power cut; on macOS, fsync() leaves it in the cache of the drive."""
    full: int | None = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(number)
    else:
        fcntl.fcntl(number, full)


def _flush_folder(folder: str) -> None:
    """Make new names in a folder outlive a power cut."""
    number = os.open(folder, os.O_RDONLY)
    try:
        _flush(number)
    except OSError as error:
        if error.errno not in _NO_FLUSH:
            raise
    finally:
        os.close(number)


def _wrapped(verb: str, path: str, error: OSError) -> SpoolError:
    advice = _ADVICE.get(error.errno or 0, "check that the spool is there and can be reached from this machine")
    kind = SpoolFull if error.errno in {errno.ENOSPC, errno.EDQUOT} else SpoolError
    return kind(f"cannot {verb} {path} of the spool: {error.strerror or error}; {advice}")
