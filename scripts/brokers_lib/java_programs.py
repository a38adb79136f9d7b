"""Java programs of our own: compiled here, because a Java to run brokers with need not have a compiler."""

import hashlib
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Final

from brokers_lib import install
from brokers_lib.settings import ECJ_VERSION, LIBRARY, Settings

_RELEASE: Final = "17"
# The quickest for a program that runs for a second or two.
_QUICK: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto")


def _compiler(settings: Settings) -> Path:
    """The Eclipse compiler, one jar that any Java runs."""
    folder = settings.state / "downloads"
    jar = folder / f"ecj-{ECJ_VERSION}.jar"
    if not jar.exists():
        install.maven(
            "copy",
            f"-Dartifact=org.eclipse.jdt:ecj:{ECJ_VERSION}",
            f"-DoutputDirectory={folder}",
            purpose=f"fetching the Java compiler ecj {ECJ_VERSION}",
        )
    return jar


def build(settings: Settings, program: str, folder: Path, jars: Path, values: Mapping[str, str] | None = None) -> None:
    """Compile a program of `java/`; quick and silent where it is compiled already.

    Args:
        settings: Where everything is kept.
        program: Its class.
        folder: Where the compiled classes go.
        jars: The folder of the jars that it needs.
        values: What to fill in for the ``${names}`` in its source.

    Raises:
        SystemExit: It does not compile.
    """
    source = Template((LIBRARY / "java" / f"{program}.java").read_text(encoding="utf-8")).safe_substitute(values or {})
    known = hashlib.sha256(f"{ECJ_VERSION}\n{jars}\n{source}".encode()).hexdigest()
    complete = folder / "complete"
    if complete.exists() and complete.read_text(encoding="ascii") == known:
        return
    compiler = _compiler(settings)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    file = folder / f"{program}.java"
    file.write_text(source, encoding="utf-8")
    class_path = ":".join(map(str, sorted(jars.glob("*.jar"))))
    command = [install.java(settings.java), *_QUICK, "-jar", str(compiler), "--release", _RELEASE, "-nowarn"]
    done = subprocess.run(
        [*command, "-cp", class_path, "-d", str(folder), str(file)], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"brokers: {program} does not compile:\n{done.stdout}{done.stderr}")
    complete.write_text(known, encoding="ascii")


def command(settings: Settings, program: str, folder: Path, jars: Path, options: Sequence[str] = ()) -> list[str]:
    """The command that runs a program that was built, but for its arguments; empty where it was not built."""
    if not (folder / "complete").exists():
        return []
    return [install.java(settings.java), *_QUICK, *options, "-cp", f"{folder}:{jars}/*", program]
