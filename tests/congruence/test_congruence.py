"""The same scenarios with fakes, in one process and over sockets must give the same answers and problems."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import pytest_asyncio
from aiohttp import web

from services.encoder import load_encoder
from tests.congruence.houses import House, Script, open_fakes, open_onebox, open_sockets
from tests.congruence.scenarios import SHARED, Scenario
from tests.congruence.transcript import Transcript
from tests.congruence.wire_scenarios import HANGING, WIRE
from tests.support.upstream import serve_upstream

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True)
class Street:
    """The three houses and the upstream that they all call."""

    fakes: House
    onebox: House
    sockets: House
    upstream: str


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def street(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Street]:
    encoder = load_encoder()
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(serve_upstream())
        upstream.replies("/findCountry", {"code": "PT"})
        upstream.replies("/listHolidays", {"names": ["Labour Day"]})
        upstream.replies("/bookRoom", {"id": "bkg_1"})
        upstream.replies("/broken", web.json_response({"why": "broken"}, status=404))
        HANGING.install(upstream)
        folders = [tmp_path_factory.mktemp(name) for name in ("fakes", "onebox", "sockets")]
        yield Street(
            await stack.enter_async_context(open_fakes(folders[0], Script())),
            await stack.enter_async_context(open_onebox(folders[1], Script(), encoder, upstream.host)),
            await stack.enter_async_context(open_sockets(folders[2], Script(), encoder, upstream.host)),
            upstream.origin,
        )


async def lived_through(house: House, scenario: Scenario, upstream: str) -> Transcript:
    log = Transcript()
    await scenario(house, log, upstream)
    assert log.all
    return log


@pytest.mark.parametrize("scenario", SHARED, ids=lambda scenario: scenario.__name__)
async def test_all_three_houses(street: Street, scenario: Scenario) -> None:
    onebox = await lived_through(street.onebox, scenario, street.upstream)
    sockets = await lived_through(street.sockets, scenario, street.upstream)
    fakes = await lived_through(street.fakes, scenario, street.upstream)
    assert onebox.all == sockets.all
    assert fakes.shared == onebox.shared


@pytest.mark.parametrize("scenario", WIRE, ids=lambda scenario: scenario.__name__)
async def test_one_process_and_sockets(street: Street, scenario: Scenario) -> None:
    onebox = await lived_through(street.onebox, scenario, street.upstream)
    sockets = await lived_through(street.sockets, scenario, street.upstream)
    assert onebox.all == sockets.all
