"""What is found out about objects of the application."""

from txqueue.model.foreign import MOST_CLASSES, ByClass, path_of


class _Odd(type):
    """A metaclass whose classes can be neither hashed nor compared."""

    def __hash__(cls) -> int:
        raise RuntimeError("no hash")

    def __eq__(cls, other: object) -> bool:
        raise RuntimeError("not comparable")


class _Of(metaclass=_Odd):
    """Of such a class."""


def test_a_class_is_looked_at_once() -> None:
    """Whatever its metaclass defines, and a class of its own for each that is alike."""
    looks: list[type] = []

    def name(cls: type) -> str:
        looks.append(cls)
        return cls.__name__

    names = ByClass(name)
    assert [names.of(each) for each in (_Of(), 1, _Of(), 2)] == ["_Of", "int"] * 2
    assert len(looks) == 2
    assert path_of(_Of) == f"{__name__}._Of"


def test_few_classes_are_remembered() -> None:
    """An application that makes classes without end keeps few of them in memory."""
    numbers = ByClass(lambda cls: cls.__name__)
    for number in range(3 * MOST_CLASSES):
        assert numbers.of(type(f"C{number}", (), {})()) == f"C{number}"
    assert len(numbers) <= MOST_CLASSES
