"""Saved contexts: brokers by name, with the options to connect to them.

The options are in ``contexts.json``, in the user's folder for settings. Passcodes are in the keyring of the system if
the package `keyring` is installed and finds one, and otherwise in ``passcodes.json``. Only their owner may read these
files.
"""

from __future__ import annotations

import enum
import importlib
import importlib.util
import json
import os
import re
import secrets
import shlex
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Final, Self

from typing_extensions import TypeIs

from trio_stomp.cli.running import CommandFailed, InvalidUsage

__all__ = ["ContextStore", "PasscodePlace", "SavedContext", "is_array", "is_object", "keyring"]


class PasscodePlace(enum.StrEnum):
    """The place where a passcode is saved."""

    NOWHERE = "none"
    KEYRING = "keyring"
    FILE = "file"


_SERVICE: Final = "trio-stomp"

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")

_OTHERS: Final = 0o077

# A thousand contexts have less.
_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class SavedContext:
    """A broker to connect to by name: JSON values of options, by the names of their parameters."""

    options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    passcode: PasscodePlace = PasscodePlace.NOWHERE


class ContextStore:
    """The contexts that a user has saved in a folder. Each method fails if their files cannot be used."""

    def __init__(self, folder: Path) -> None:
        self._contexts = folder / "contexts.json"
        # If there is no keyring.
        self.passcode_file = folder / "passcodes.json"

    @classmethod
    def of_user(cls, environment: Mapping[str, str] = os.environ, *, windows: bool = os.name == "nt") -> Self:
        """Return the store in the user's folder for settings."""
        if windows:
            base = environment.get("APPDATA") or Path.home() / "AppData" / "Roaming"
        else:
            base = environment.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        return cls(Path(base) / "trio-stomp")

    @property
    def in_use(self) -> str | None:
        """The context that `use` chose."""
        found = _read(self._contexts).get("in_use")
        if found is None or isinstance(found, str):
            return found
        raise _broken(self._contexts, "in_use is not a name")

    def all(self) -> dict[str, SavedContext]:
        """Return all contexts by name."""
        found = _read(self._contexts).get("contexts", {})
        if not is_object(found):
            raise _broken(self._contexts, "contexts is not an object")
        return {name: self._context(name, entry) for name, entry in sorted(found.items())}

    def _context(self, name: str, entry: object) -> SavedContext:
        if _NAME.fullmatch(name) and is_object(entry) and entry.get("passcode") in list(PasscodePlace):
            options = entry.get("options")
            if is_object(options) and all(map(_is_option, options.values())):
                return SavedContext(options, PasscodePlace(str(entry["passcode"])))
        raise _broken(self._contexts, f"{name!r} is not a context")

    def find(self, name: str) -> SavedContext:
        """Return the context of this name, or fail."""
        contexts = self.all()
        if name not in contexts:
            known = f"there are: {', '.join(contexts)}" if contexts else "there are none yet: trio-stomp context add"
            raise InvalidUsage(f"no context {name!r}; {known}")
        return contexts[name]

    def passcode_of(self, name: str) -> str | None:
        """Return the saved passcode of a context; None if there is none."""
        place = self.find(name).passcode
        if place is PasscodePlace.NOWHERE:
            return None
        in_keyring = place is PasscodePlace.KEYRING
        found = _keyring_of(name, "get_password") if in_keyring else _read(self.passcode_file).get(name)
        if not isinstance(found, str):
            where = "the keyring" if in_keyring else self.passcode_file
            raise InvalidUsage(f"{where} has no passcode for {name!r}; add the context again")
        return found

    def add(self, name: str, options: Mapping[str, object], passcode: str | None, place: PasscodePlace) -> None:
        """Save a context, in place of one of the same name."""
        if not _NAME.fullmatch(name):
            raise InvalidUsage(f"invalid name {name!r}; use letters, digits and . _ -")
        contexts = self.all()
        where = PasscodePlace.NOWHERE if passcode is None else place
        if name in contexts and contexts[name].passcode is PasscodePlace.KEYRING:
            # Before anything is written: without it, the one there could not be forgotten.
            _require_keyring(name)
        if where is PasscodePlace.KEYRING:
            _keyring_of(name, "set_password", passcode)
        elif where is PasscodePlace.FILE:
            _write(self.passcode_file, {**_read(self.passcode_file), name: passcode})
        # Not before the new one is saved, which may fail.
        if name in contexts and contexts[name].passcode is not where:
            self._forget_passcode(name, contexts[name])
        self._save({**contexts, name: SavedContext(options, where)}, self.in_use)

    def use(self, name: str | None) -> None:
        """Choose the context for commands that name none; None: no context."""
        if name is not None:
            self.find(name)
        self._save(self.all(), name)

    def remove(self, name: str) -> None:
        """Remove a context, and its passcode."""
        self._forget_passcode(name, self.find(name))
        contexts = self.all()
        del contexts[name]
        self._save(contexts, None if self.in_use == name else self.in_use)

    def _forget_passcode(self, name: str, context: SavedContext) -> None:
        if context.passcode is PasscodePlace.KEYRING:
            _keyring_of(name, "delete_password")
        elif context.passcode is PasscodePlace.FILE:
            _write(self.passcode_file, {each: text for each, text in _read(self.passcode_file).items() if each != name})

    def _save(self, contexts: Mapping[str, SavedContext], in_use: str | None) -> None:
        entries = {name: {"options": each.options, "passcode": each.passcode} for name, each in contexts.items()}
        _write(self._contexts, {"in_use": in_use, "contexts": entries})


def is_object(value: object) -> TypeIs[dict[str, object]]:
    """Whether a value from JSON is an object."""
    # All keys in JSON are strings.
    return isinstance(value, dict)


def is_array(value: object) -> TypeIs[list[object]]:
    """Whether a value from JSON is an array."""
    return isinstance(value, list)


def _broken(file: Path, why: str) -> InvalidUsage:
    return InvalidUsage(f"{file} is damaged; fix or delete it: {why}")


def _is_option(value: object) -> bool:
    """Whether a value from JSON may be that of an option: a text, number or boolean, or an array of these or pairs."""
    rows = value if is_array(value) else [value]
    cells = [cell for row in rows for cell in (row if is_array(row) else [row])]
    return all(isinstance(cell, str | int | float) for cell in cells)


def _read(file: Path) -> dict[str, object]:
    """Return the content of a file, unless other users can read it; nothing if the file does not exist.

    The options may contain a passcode, too: that of a proxy or of the management interface.
    """
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            # Reading a pipe or a device might never end.
            raise InvalidUsage(f"{file} cannot be read: it is not a regular file")
        # Windows protects this folder from other users by other means than the mode.
        if os.name != "nt" and status.st_mode & _OTHERS:
            raise InvalidUsage(f"other users can read {file}. Run: chmod 600 {shlex.quote(str(file))}")
        if status.st_size > _MOST_BYTES:
            raise _broken(file, f"it has {status.st_size} bytes, and {_MOST_BYTES} are plenty")
        found: object = json.loads(file.read_text("utf-8"), object_pairs_hook=_unique, parse_constant=_no_number)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidUsage(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        # Its text would show bytes of the file.
        raise _broken(file, "it is not UTF-8 text") from None
    except RecursionError:
        raise _broken(file, "it is nested too deeply") from None
    except ValueError as error:
        raise _broken(file, str(error)) from None
    if not is_object(found):
        raise _broken(file, "it is not a JSON object")
    return found


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice in a JSON object")
    return found


def _no_number(_text: str) -> object:
    raise ValueError("NaN and Infinity are not JSON")


def _write(file: Path, content: Mapping[str, object]) -> None:
    """Replace a file as a whole, so that no reader sees half of it. Only its owner may read it."""
    beside = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
            # In ASCII: an argument that is not UTF-8 has characters that no encoding has.
            json.dump(content, stream, indent=2)
            stream.write("\n")
        beside.replace(file)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise CommandFailed(f"{file} cannot be written: {error.strerror}") from None


# --- the keyring ------------------------------------------------------------------------------------------------------


def keyring() -> ModuleType | None:
    """Return the package `keyring`, if it is installed and finds a keyring of the system."""
    if importlib.util.find_spec("keyring") is None:
        return None
    module = importlib.import_module("keyring")
    # Without a keyring, the package has a dummy, with priority 0.
    return module if module.get_keyring().priority > 0 else None


def _require_keyring(name: str) -> ModuleType:
    module = keyring()
    if module is None:
        why = "it requires the package keyring and a keyring of the system"
        raise InvalidUsage(f"there is no keyring for the passcode of {name!r}: {why}")
    return module


def _keyring_of(name: str, verb: str, *arguments: object) -> object:
    module = _require_keyring(name)
    errors = importlib.import_module("keyring.errors")
    try:
        result: object = getattr(module, verb)(_SERVICE, name, *arguments)
    except errors.PasswordDeleteError:
        # It was removed already.
        return None
    except errors.KeyringError as error:
        raise CommandFailed(f"the keyring refuses the passcode of {name!r}: {error}") from None
    return result
