"""How Sphinx builds the manual. The build reads this checkout alone: it fetches nothing."""

import dataclasses
import enum
import importlib
import inspect
import sys
import tomllib
from pathlib import Path

from docutils import nodes
from docutils.nodes import Element
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "_extensions")]

with (ROOT / "pyproject.toml").open("rb") as _file:
    release: str = tomllib.load(_file)["project"]["version"]

project = "trio-stomp"
version = release
author = "the trio-stomp authors"
project_copyright = author

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "session_states",
]
# `send` in a docstring leads to its description, where there is one.
default_role = "py:obj"
exclude_patterns = ["_build", "_extensions"]

myst_enable_extensions = ["colon_fence", "deflist", "tasklist"]
myst_heading_anchors = 3

autodoc_member_order = "groupwise"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_typehints_format = "short"
autodoc_class_signature = "separated"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Cancellation", "Spec"]
python_use_unqualified_type_names = True

# Without the inventories of other projects only our own names can be checked, so only those are; and type variables,
# which Sphinx names after their module, have no description to lead to. Nor has the base of some enumerations, `Word`.
nitpick_ignore_regex = [
    (r"py:.*", r"(?!trio_stomp\b).*"),
    (r"py:(class|obj)", r"trio_stomp\..*\.[A-Z](_co)?"),
    (r"py:class", r"trio_stomp\.protocol\.frames\.Word"),
    (r"py:class", r"trio_stomp\.session\.message\.(Source|Origin)"),
    # What the streams of `testing` are derived from; users pass a stream of trio's or anyio's.
    (r"py:class", r"trio_stomp\.runtime\.interface\.ByteStream"),
]

html_theme = "furo"
html_title = f"trio-stomp {release}"
html_show_sphinx = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Public modules, in the order in which they import. A name is described on the page of the first module that shows it;
# what else it is called, in an annotation or in prose, leads there.
PUBLIC_MODULES = (
    "trio_stomp.errors",
    "trio_stomp.protocol",
    "trio_stomp.brokers",
    "trio_stomp.testing",
    "trio_stomp",
    "trio_stomp.types",
    "trio_stomp.blocking",
)
# Pages which leave out what another page describes, and their modules.
SHARING = {"reference/trio_stomp": "trio_stomp", "reference/types": "trio_stomp.types"}


def homes_of_public_names() -> dict[str, str]:
    """Map all full names of each public object to the one that is described."""
    homes: dict[str, str] = {}
    seen: dict[tuple[str, int], str] = {}
    for name_of_module in PUBLIC_MODULES:
        module = importlib.import_module(name_of_module)
        for name in module.__all__:
            public = getattr(module, name)
            home = seen.setdefault((name, id(public)), f"{name_of_module}.{name}")
            homes[f"{name_of_module}.{name}"] = home
            if inspect.isclass(public) or inspect.isfunction(public):
                homes[f"{public.__module__}.{public.__qualname__}"] = home
    return homes


HOMES = homes_of_public_names()


def resolve_at_home(app: Sphinx, env: BuildEnvironment, node: pending_xref, text: Element) -> nodes.reference | None:
    """Lead a reference that Sphinx could not resolve to where its target, or its class, is described."""
    name, member = str(node.get("reftarget", "")), ""
    while name and name not in HOMES:
        name, _, last = name.rpartition(".")
        member = f".{last}{member}"
    if not name or node.get("refdomain") != "py":
        return None
    python = env.domains.python_domain
    return python.resolve_xref(env, node["refdoc"], app.builder, "obj", HOMES[name] + member, node, text)


def skip_what_lives_elsewhere(app: Sphinx, kind: str, name: str, member: object, *_rest: object) -> bool | None:
    """Leave out of a page what another page describes, and everywhere what is not ours."""
    alias = f"{SHARING.get(app.env.docname, '')}.{name}"
    elsewhere = kind == "module" and app.env.docname in SHARING and HOMES.get(alias, alias) != alias
    # The enum module gives its classes a documented __new__, which says nothing about ours.
    if isinstance(member, enum.Enum):
        # The names of an enumeration are its point, described or not; where they are described, that is in its class.
        return "Attributes:" in (type(member).__doc__ or "")
    # Nor does a named tuple's "Alias for field number 0": its class describes its fields.
    foreign = name == "__new__" or str(inspect.getdoc(member)).startswith("Alias for field number")
    return True if elsewhere or foreign or (name == "__init__" and is_not_for_users(member)) else None


def is_not_for_users(constructor: object) -> bool:
    """Whether a constructor is called by the library alone: its class then says nothing about its arguments."""
    name = str(getattr(constructor, "__qualname__", "")).partition(".")[0]
    owner: object = getattr(inspect.getmodule(constructor), name, None)
    return inspect.isclass(owner) and not dataclasses.is_dataclass(owner) and "Args:" not in (owner.__doc__ or "")


def setup(app: Sphinx) -> None:
    """Register the two functions above."""
    app.connect("missing-reference", resolve_at_home)
    app.connect("autodoc-skip-member", skip_what_lives_elsewhere)
