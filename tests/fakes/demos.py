"""A fake knowledge base in memory."""

from collections.abc import Sequence

from services.clients.base import DEFAULT_TIMEOUT_S
from services.contracts.demo import (
    Demo,
    DemoPage,
    DemosOfApisRequest,
    ImportDemosReport,
    ImportDemosRequest,
    SameDemosRequest,
    SameDemosResponse,
    SelectDemosRequest,
    SelectDemosResponse,
    SelectedDemo,
    demo_id,
)
from services.errors import NotFound, ValidationFailed
from tests.fakes.base import Fake, words

_THRESHOLD = 0.8
_ALIKE = 0.3
_SAME = 20


class FakeDemos(Fake):
    """:class:`~services.clients.Demos` in memory. Similarity is the share of common words (Jaccard)."""

    service = "demo_svc"

    def __init__(self, *demos: Demo) -> None:
        super().__init__()
        self.demos = {demo.id: demo for demo in map(_checked, demos)}
        self.private = dict[tuple[str, str], Demo]()
        """Demos that belong to a tenant, by tenant and demo id."""
        self._positions = {demo: number for number, demo in enumerate(self.demos, 1)}

    async def select(self, request: SelectDemosRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> SelectDemosResponse:
        """Task-level demos over the threshold, most similar first, then API-level ones in the order of the APIs."""
        await self._arrive("select", timeout_s)
        if request.same:
            fit = {api.id for api in request.apis}
            same = [demo for demo in self._same(request.query, request.tenant) if {*demo.apis} <= fit][: request.k]
            return SelectDemosResponse(demos=tuple(SelectedDemo(demo=d, similarity=1, level=d.level) for d in same))
        threshold = _THRESHOLD if request.threshold is None else request.threshold
        scored = [(_similarity(request.query, demo.query), demo) for demo in self._seen(request.tenant).values()]
        offered = [api.id for api in request.apis]
        tasks = [
            SelectedDemo(demo=demo, similarity=score, level="task")
            for score, demo in sorted(scored, key=lambda pair: -pair[0])
            if demo.level == "task" and score > threshold and (not offered or set(demo.apis) <= set(offered))
        ]
        singles = [
            SelectedDemo(demo=demo, similarity=score, level="api")
            for api in offered
            for score, demo in scored
            if demo.level == "api" and demo.apis == (api,)
        ]
        chosen = (tasks + singles)[: request.k]
        taken = {one.demo.id for one in chosen}
        alike = [
            (_share(request.query, demo.query), SelectedDemo(demo=demo, similarity=score, level=demo.level))
            for score, demo in scored
            if demo.id not in taken and offered and set(demo.apis) <= set(offered)
        ]
        alike = sorted((one for one in alike if one[0] >= _ALIKE), key=lambda one: (-one[0], -one[1].similarity))
        return SelectDemosResponse(demos=(*chosen, *(one for _, one in alike[: request.alike])))

    async def same(self, request: SameDemosRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> SameDemosResponse:
        """The APIs of the demos of a text."""
        await self._arrive("same", timeout_s)
        found = self._same(request.query, request.tenant)
        return SameDemosResponse(apis=tuple(tuple(sorted(demo.apis)) for demo in found))

    async def of_apis(self, request: DemosOfApisRequest) -> DemoPage:
        """A page of the demos that use any of some APIs."""
        await self._arrive("of_apis")
        found = [demo for demo in self._seen(request.tenant).values() if not {*demo.apis}.isdisjoint(request.apis)]
        return self._page(found, request.limit, request.cursor)

    async def add(self, demo: Demo, *, tenant: str | None = None) -> Demo:
        """Add a demo; adding it again changes nothing."""
        await self._arrive("add")
        return self._keep((demo,), tenant)[0]

    async def import_demos(self, request: ImportDemosRequest, *, tenant: str | None = None) -> ImportDemosReport:
        """Add many demos."""
        await self._arrive("import_demos")
        before = len(self.demos) + len(self.private)
        self._keep(request.demos, tenant)
        added = len(self.demos) + len(self.private) - before
        return ImportDemosReport(added=added, unchanged=len(request.demos) - added)

    async def list(
        self,
        *,
        api: str | None = None,
        tenant: str | None = None,
        own: bool = False,
        limit: int = 20,
        cursor: str | None = None,
    ) -> DemoPage:
        """A page of demos, oldest first."""
        await self._arrive("list")
        seen = self._own(tenant) if own and tenant is not None else self._seen(tenant)
        found = [demo for demo in seen.values() if api is None or api in demo.apis]
        return self._page(found, limit, int(cursor or 0))

    def _page(self, found: Sequence[Demo], limit: int, after: int) -> DemoPage:
        later = [demo for demo in found if self._positions[demo.id] > after]
        later.sort(key=lambda demo: self._positions[demo.id])
        further = str(self._positions[later[limit - 1].id]) if len(later) > limit else None
        return DemoPage(demos=tuple(later[:limit]), total=len(found), next=further)

    async def get(self, demo_id: str, *, tenant: str | None = None) -> Demo:
        """One demo. Raises NotFound."""
        await self._arrive("get")
        return self._known(demo_id, self._seen(tenant))

    async def delete(self, demo_id: str, *, tenant: str | None = None) -> None:
        """Remove a demo. Raises NotFound."""
        await self._arrive("delete")
        self._known(demo_id, self.demos if tenant is None else self._own(tenant))
        if tenant is None:
            del self.demos[demo_id]
        else:
            del self.private[tenant, demo_id]

    def _same(self, query: str, tenant: str | None) -> tuple[Demo, ...]:
        seen = self._own(tenant) | self.demos
        return tuple(demo for demo in seen.values() if demo.query == query)[:_SAME]

    def _own(self, tenant: str | None) -> dict[str, Demo]:
        return {demo.id: demo for (owner, _), demo in self.private.items() if owner == tenant}

    def _seen(self, tenant: str | None) -> dict[str, Demo]:
        return self.demos | self._own(tenant)

    def _known(self, demo_id: str, demos: dict[str, Demo]) -> Demo:
        if demo_id not in demos:
            raise NotFound(f"There is no demo {demo_id}.")
        return demos[demo_id]

    def _keep(self, demos: tuple[Demo, ...], tenant: str | None) -> tuple[Demo, ...]:
        checked = tuple(_checked(demo, number) for number, demo in enumerate(demos))
        for demo in checked:
            self._positions.setdefault(demo.id, len(self._positions) + 1)
            if tenant is None:
                self.demos.setdefault(demo.id, demo)
            elif demo.id not in self.demos:
                self.private.setdefault((tenant, demo.id), demo)
        return checked


def _checked(demo: Demo, index: int = 0) -> Demo:
    expected = demo_id(demo)
    if demo.id not in {"", expected}:
        raise _invalid(index, "id", "The id must be the hash of the demo's query and plan, or empty.")
    if demo.level == "api" and len(demo.apis) != 1:
        raise _invalid(index, "plan", "An API-level demo must use one API; this plan uses several.")
    return demo.model_copy(update={"id": expected})


def _invalid(index: int, field: str, message: str) -> ValidationFailed:
    errors = [{"field": f"body.demos.{index}.{field}", "message": message, "kind": "value_error"}]
    return ValidationFailed(f"Demo {index}: {message}", errors=errors)


def _similarity(left: str, right: str) -> float:
    a, b = words(left), words(right)
    return len(a & b) / len(a | b) if a | b else 0.0


def _share(left: str, right: str) -> float:
    """The number of common words divided by the number of words of the text with more words."""
    one, other = words(left), words(right)
    return len(one & other) / max(len(one), len(other), 1)
