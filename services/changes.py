"""What an import would change, for people to read: equal changes of many operations are said once."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from services.contracts.api import FieldChange, ImportChange

_PARAMETER = "parameters."


@dataclass(slots=True)
class SameChange:
    """A field that changes in the same way in some operations.

    Attributes:
        said: what happens, such as ``parameter `limit` added``.
        before: what it says; None where it is not there.
        after: what it would say.
        apis: ids of the first of these operations.
        total: how many there are.
    """

    said: str
    before: str | None
    after: str | None
    apis: list[str] = field(default_factory=list)
    total: int = 0

    @property
    def title(self) -> str:
        """Where, and what happens there."""
        return f"{self.total:,} operations: {self.said}" if self.total > 1 else f"{self.apis[0]}: {self.said}"


class ChangeGroups:
    """Groups changes one after the other, as they come.

    Args:
        most: different changes that are kept; None: all.
        named: operations of each that are named; None: all.

    Attributes:
        others: APIs that would be added or removed, in order; at most ``most`` of each kind.
        left_out: fields that differ and are in no group.
        others_left_out: added and removed APIs that are not among the others.
    """

    def __init__(self, most: int | None = None, named: int | None = None) -> None:
        self._most, self._named = most, named
        self._groups: dict[tuple[str, str | None, str | None], SameChange] = {}
        self.others: dict[str, list[ImportChange]] = {"removed": [], "added": []}
        self.left_out = self.others_left_out = 0

    @property
    def groups(self) -> list[SameChange]:
        """Those of the most operations first."""
        return sorted(self._groups.values(), key=lambda group: -group.total)

    def add(self, change: ImportChange) -> None:
        """Take one more."""
        if change.action != "updated":
            listed = self.others[change.action]
            if self._most is None or len(listed) < self._most:
                listed.append(change)
            else:
                self.others_left_out += 1
            return
        self.left_out += change.left_out
        for one in change.fields or (FieldChange(field=""),):
            self._add(change.id, one)

    def _add(self, api: str, one: FieldChange) -> None:
        key = (one.field, one.before, one.after)
        group = self._groups.get(key)
        if group is None:
            if self._most is not None and len(self._groups) >= self._most:
                self.left_out += 1
                return
            group = self._groups[key] = SameChange(said(one), one.before, one.after)
        group.total += 1
        if self._named is None or len(group.apis) < self._named:
            group.apis.append(api)


def grouped(changes: Sequence[ImportChange]) -> ChangeGroups:
    """All of these changes in groups."""
    groups = ChangeGroups()
    for change in changes:
        groups.add(change)
    return groups


def said(change: FieldChange) -> str:
    """What happens to a field, in words."""
    name = change.field
    if not name:
        return "changed"
    what = f"parameter `{name.removeprefix(_PARAMETER)}`" if name.startswith(_PARAMETER) else f"`{name}`"
    return f"{what} {'added' if change.before is None else 'removed' if change.after is None else 'changed'}"
