"""A model is made from its description, of checked classes and of classes that the caller trusts by name."""

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..runtime.records import RefusedError, from_record, is_record
from .archive import PLAIN, Archive, Json, plain_type
from .schema import CLASSES, NUMBER_TYPES, PACKAGE_CLASSES, made, resolved

_MOST_PARTS = 10**6  # objects of a model, each counted as often as it is referred to
_STATE = 624  # numbers in the state of a Mersenne Twister


class UntrustedError(ValueError):
    """A file asks for classes or functions that are not trusted; the message is a list of their names."""


class Decoder:
    """The objects of one description, each made once."""

    def __init__(self, archive: Archive, trusted: set[str]) -> None:
        self.archive, self.trusted = archive, trusted
        self.objects: list[object] = []
        self._parts: list[int] = []  # number of objects that every object holds, itself included
        self._count = 0
        self._arrays: dict[int, NDArray[np.generic]] = {}
        self._kinds: dict[str, Callable[[Json], object]] = {
            "array": self._array,
            "bytes": lambda content: bytes(self.value(content).astype(np.uint8, casting="no")),
            "dict": lambda content: {self.value(key): self.value(one) for key, one in content},
            "dtype": lambda content: np.dtype(object) if content == "|O" else plain_type(content),
            "fraction": lambda content: Fraction(int(content[0]), int(content[1])),
            "name": self._trusted,
            "number": lambda content: PLAIN[content[0]].type(content[1]),
            "number_type": lambda content: NUMBER_TYPES[content],
            "object": self._object,
            "objects": self._objects,
            "random": self._random,
            "record": self._record,
            "records": self._records,
            "slice": lambda content: slice(*map(self.value, content)),
            "tuple": lambda content: tuple(map(self.value, content)),
        }

    def model(self, description: Json) -> object:
        """Make all objects and return the last one, which is the model."""
        nodes = description["objects"]
        foreign = set(_foreign_names(nodes))
        if not foreign <= self.trusted:
            raise UntrustedError(", ".join(map(_shown, sorted(foreign - self.trusted))))
        for node in nodes:
            self._count = 1
            self.objects.append(self._made(node))
            self._parts.append(self._count)
        return self.objects[-1]

    def value(self, given: Json) -> Any:
        """Return the value that a description gives."""
        if given is None or isinstance(given, (bool, int, float, str)):
            return given
        if isinstance(given, list):
            return [self.value(one) for one in given]
        ((kind, content),) = given.items()
        return self._kinds[kind](content)

    def _made(self, node: Json) -> object:
        """Make one object of the description, of a class on the list or of a trusted one."""
        key = "make" if "make" in node else "call"
        name = node[key]
        cls = CLASSES.get(name)
        if cls is None or (name in self.trusted and cls not in PACKAGE_CLASSES):
            return self._foreign(key, self._trusted(name), node)
        if not _is_checked(node):
            raise RefusedError(f"{name} is not described as an object of its class is")
        state = self.value(node["state"])
        try:
            return made(cls, state)
        except RefusedError as wrong:
            if cls in PACKAGE_CLASSES:
                raise
            raise UntrustedError(f"{name}, of which {wrong}") from None

    def _foreign(self, key: str, make: Any, node: Json) -> Any:
        """Make an object of a trusted class or by a trusted function, as unpickling would."""
        arguments = [self.value(one) for one in node.get("arguments", ())]
        obj = make.__new__(make, *arguments) if key == "make" else make(*arguments)
        state, items, pairs = (self.value(node.get(part)) for part in ("state", "items", "pairs"))
        if items is not None:
            obj.extend(items)
        for name, value in pairs or ():
            obj[name] = value
        if state is None:
            return obj
        if hasattr(obj, "__setstate__"):
            obj.__setstate__(state)
            return obj
        plain, slots = state if isinstance(state, tuple) else (state, None)
        vars(obj).update(plain or {})
        for name, value in (slots or {}).items():
            setattr(obj, name, value)
        return obj

    def _trusted(self, name: str) -> Any:
        """Return the trusted class or function that is defined under exactly this name."""
        if name not in self.trusted:
            raise UntrustedError(name)
        known = resolved(name)
        if known is None:
            raise RefusedError(f"it asks for {name}, and no class or function is defined under this name")
        return known

    def _object(self, place: Json) -> object:
        """Return an object that was made before, by its index."""
        if type(place) is not int or not 0 <= place < len(self.objects):
            raise RefusedError(f"it refers to object {place!r:.50}, which does not come before it")
        self._count += self._parts[place]
        if self._count > _MOST_PARTS:
            raise RefusedError("its objects refer to each other too often")
        return self.objects[place]

    def _array(self, place: Json) -> NDArray[np.generic]:
        """Return an array of the archive by its number."""
        if type(place) is not int:
            raise RefusedError(f"it refers to array {place!r:.50}, which is not a whole number")
        if place not in self._arrays:
            self._arrays[place] = self.archive.array(place)
        return self._arrays[place]

    def _objects(self, content: Json) -> NDArray[np.generic]:
        """Make an array of Python objects from its shape and its entries."""
        shape, items = content
        if len(shape) > 8 or not all(type(side) is int and 0 <= side <= 10**6 for side in shape):
            raise RefusedError(f"an array of objects has the shape {shape!r:.100}, which is not allowed")
        array = np.empty(len(items), object)
        for k, one in enumerate(items):
            array[k] = self.value(one)
        return array.reshape(shape)

    def _record(self, content: Json) -> object:
        """Make an object of this package from the plain name of its record and the values of its fields."""
        name, values = content
        if not is_record(str(name)):
            raise RefusedError(f"it has a record {name!r:.50}, which no model file has")
        return from_record(name, {key: self.value(one) for key, one in values.items()})

    def _random(self, content: Json) -> np.random.RandomState:
        """Make a random number generator from its state."""
        name, key, place, has_normal, normal = map(self.value, content)
        if name != "MT19937" or key.dtype != np.uint32 or key.shape != (_STATE,) or not 0 <= int(place) <= _STATE:
            raise RefusedError("the state of its random number generator is not valid")
        result = np.random.RandomState()
        result.set_state((name, key, int(place), int(has_normal), float(normal)))
        return result

    def _records(self, content: Json) -> NDArray[np.generic]:
        """Return an array of records, which only classes that need to be trusted have."""
        if not self.trusted:
            raise UntrustedError("numpy.void")
        (names, formats, offsets), raw = content[0], self.value(content[1])
        if any(form not in PLAIN for form in formats) or raw.dtype != np.uint8:
            raise RefusedError("it has records with other fields than plain numbers, dates or words")
        parts: Any = {"names": names, "formats": formats, "offsets": offsets, "itemsize": raw.shape[-1]}
        return np.asarray(np.ascontiguousarray(raw).view(np.dtype(parts))[..., 0])


def _shown(name: str) -> str:
    return name if re.fullmatch(r"[\w.<>]{1,200}", name) else f"{name!a:.100}"


def _is_checked(node: Json) -> bool:
    """Return whether a node describes an object of a class on the list, by its class and state alone."""
    return isinstance(node, dict) and set(node) == {"make", "state"} and str(node["make"]) in CLASSES


def _foreign_names(nodes: Json) -> Iterator[str]:
    """Yield the names of all classes and functions in a description that are not on the list."""
    yield from (str(node.get("make", node.get("call"))) for node in nodes if not _is_checked(node))
    waiting = [nodes]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if "name" in one:
                yield str(one["name"])
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
