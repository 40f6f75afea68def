"""A readable summary of what an import would change. Equal changes to several operations are grouped."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from services.contracts.api import FieldChange, ImportChange

_PARAMETER = "parameters."


@dataclass(slots=True)
class SameChange:
    """A field that changes in the same way in one or more operations.

    Attributes:
        said: description of the change, such as ``parameter `limit` added``.
        before: the old value; None if the field does not exist yet.
        after: the new value; None if the field is removed.
        apis: ids of the first of these operations.
        total: number of operations.
    """

    said: str
    before: str | None
    after: str | None
    apis: list[str] = field(default_factory=list)
    total: int = 0

    @property
    def title(self) -> str:
        """The operation, or the number of operations, and the change."""
        return f"{self.total:,} operations: {self.said}" if self.total > 1 else f"{self.apis[0]}: {self.said}"


class ChangeGroups:
    """Groups changes incrementally.

    Args:
        most: maximum number of distinct changes to keep; None: all.
        named: maximum number of operations to name per change; None: all.

    Attributes:
        others: APIs that would be added or removed, in order; at most ``most`` of each kind.
        left_out: number of changed fields that are in no group.
        others_left_out: number of added and removed APIs that are not in ``others``.
    """

    def __init__(self, most: int | None = None, named: int | None = None) -> None:
        self._most, self._named = most, named
        self._groups: dict[tuple[str, str | None, str | None], SameChange] = {}
        self.others: dict[str, list[ImportChange]] = {"removed": [], "added": []}
        self.left_out = self.others_left_out = 0

    @property
    def groups(self) -> list[SameChange]:
        """The groups, those with the most operations first."""
        return sorted(self._groups.values(), key=lambda group: -group.total)

    def add(self, change: ImportChange) -> None:
        """Add one change."""
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
    """Group all of these changes."""
    groups = ChangeGroups()
    for change in changes:
        groups.add(change)
    return groups


def said(change: FieldChange) -> str:
    """Describe what happens to a field."""
    name = change.field
    if not name:
        return "changed"
    what = f"parameter `{name.removeprefix(_PARAMETER)}`" if name.startswith(_PARAMETER) else f"`{name}`"
    return f"{what} {'added' if change.before is None else 'removed' if change.after is None else 'changed'}"
