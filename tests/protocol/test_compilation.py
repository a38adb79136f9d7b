"""Which of the two this is; `make compiled` runs these tests once more with the compiled one."""

import os

from trio_stomp.protocol import COMPILED, Decoder, Frame, Headers


def test_compiled_when_the_compiled_package_is_tested_then_true_and_else_false() -> None:
    assert COMPILED is (os.environ.get("TRIO_STOMP_TEST_COMPILED") == "1")


def test_compiled_when_looking_at_the_busiest_classes_then_they_are_what_it_says() -> None:
    # mypyc leaves the names of the attributes with each class that it makes.
    assert all(hasattr(each, "__mypyc_attrs__") is COMPILED for each in (Decoder, Frame, Headers))
