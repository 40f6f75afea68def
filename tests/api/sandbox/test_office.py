"""Endpoints with state: bookings, reminders, orders."""

from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from sandbox.main import create_app
from sandbox.settings import SandboxSettings
from tests.api.sandbox.conftest import BASIC, BEARER

BOOKING = {"room_id": "room_cirrus", "title": "Planning", "start": "2026-12-01T09:00", "end": "2026-12-01T10:30"}
REMINDER = {"text": "Call the florist", "due_at": "2026-12-24T09:00:00Z"}
ORDER = {"customer_id": "cus_10", "lines": [{"sku": "AUD-1001", "quantity": 2}, {"sku": "COM-2007"}]}


def test_a_booking_lives(client: TestClient, key: dict[str, str]) -> None:
    client.headers.update(key)
    made = client.post("/bookings", json=BOOKING)
    assert made.status_code == 201
    booking = made.json()
    assert booking["price"] == {"amount": 72.0, "currency": "EUR"}
    assert booking["start"] == "2026-12-01T09:00:00"
    path = f"/bookings/{booking['id']}"
    assert client.get(path).json() == booking
    moved = client.patch(path, json={"end": "2026-12-01T11:00"}).json()
    assert (moved["end"], moved["price"]["amount"]) == ("2026-12-01T11:00:00", 96.0)
    assert client.get("/bookings", params={"date": "2026-12-01"}).json()["items"] == [moved]
    assert client.get("/bookings", params={"date": "2026-12-02"}).json()["items"] == []
    assert client.post(f"{path}/cancel").json()["status"] == "cancelled"
    assert client.post(f"{path}/cancel").json()["status"] == "cancelled"
    assert client.patch(path, json={"title": "Late"}).status_code == 409
    assert client.get("/bookings/bkg_999").status_code == 404


def test_rooms_cannot_be_booked_twice(client: TestClient, key: dict[str, str]) -> None:
    client.headers.update(key)
    first = client.post("/bookings", json=BOOKING).json()
    clash = client.post("/bookings", json=BOOKING | {"start": "2026-12-01T10:00", "end": "2026-12-01T12:00"})
    assert clash.status_code == 409
    assert first["id"] in clash.json()["detail"]
    after = client.post("/bookings", json=BOOKING | {"start": "2026-12-01T10:30", "end": "2026-12-01T12:00"})
    assert after.status_code == 201
    back = client.patch(f"/bookings/{after.json()['id']}", json={"start": "2026-12-01T10:00"})
    assert back.status_code == 409
    client.post(f"/bookings/{first['id']}/cancel")
    assert client.post("/bookings", json=BOOKING).status_code == 201


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"room_id": "room_nowhere"}, 404),
        ({"attendees": 13}, 422),
        ({"attendees": "2"}, 422),
        ({"end": "2026-12-01T08:00"}, 422),
        ({"end": "2026-12-02T09:00"}, 422),
        ({"start": "2026-12-01T09:00:00+01:00"}, 422),
        ({"surprise": 1}, 422),
    ],
)
def test_impossible_bookings(client: TestClient, key: dict[str, str], change: dict[str, Any], status: int) -> None:
    assert client.post("/bookings", json=BOOKING | change, headers=key).status_code == status


def test_rooms(client: TestClient, key: dict[str, str]) -> None:
    wanted: dict[str, Any] = {"min_capacity": 5, "equipment": ["screen", "video"]}
    rooms = client.get("/rooms", params=wanted, headers=key).json()
    assert [room["id"] for room in rooms] == ["room_cirrus", "room_ember"]


def test_idempotency_key(client: TestClient, key: dict[str, str]) -> None:
    headers = key | {"Idempotency-Key": "abc"}
    first = client.post("/bookings", json=BOOKING, headers=headers)
    again = client.post("/bookings", json=BOOKING, headers=headers)
    assert (again.status_code, again.json()) == (201, first.json())
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    other = client.post("/bookings", json=BOOKING | {"title": "Other"}, headers=headers)
    assert other.status_code == 422
    assert len(client.get("/bookings", headers=key).json()["items"]) == 1


def test_a_failed_request_is_not_remembered(client: TestClient, key: dict[str, str]) -> None:
    taken = client.post("/bookings", json=BOOKING, headers=key).json()
    headers = key | {"Idempotency-Key": "retry"}
    assert client.post("/bookings", json=BOOKING, headers=headers).status_code == 409
    client.post(f"/bookings/{taken['id']}/cancel", headers=key)
    assert client.post("/bookings", json=BOOKING, headers=headers).status_code == 201


def test_keys_of_different_operations_do_not_meet(
    client: TestClient, key: dict[str, str], shop: dict[str, str]
) -> None:
    once = {"Idempotency-Key": "same"}
    assert client.post("/bookings", json=BOOKING, headers=key | once).status_code == 201
    assert client.post("/orders", json=ORDER, headers=shop | once).status_code == 201


def test_a_reminder_lives(client: TestClient) -> None:
    client.auth = BASIC
    reminder = client.post("/reminders", json=REMINDER | {"tags": ["home"]}).json()
    assert (reminder["priority"], reminder["done"]) == ("normal", False)
    path = f"/reminders/{reminder['id']}"
    assert client.get(path).json() == reminder
    assert client.patch(path, json={"done": True}).json()["done"]
    assert client.get("/reminders", params={"done": False}).json()["total"] == 0
    assert client.get("/reminders", params={"tag": "home"}).json()["total"] == 1
    assert client.get("/reminders", params={"due_before": "2026-12-24T11:00:01+02:00"}).json()["total"] == 1
    assert client.get("/reminders", params={"due_before": "2026-12-24T11:00:00+02:00"}).json()["total"] == 0
    assert client.delete(path).status_code == 204
    assert client.delete(path).status_code == 404


def test_reminders_ignore_idempotency_keys(client: TestClient) -> None:
    client.auth = BASIC
    ids = {client.post("/reminders", json=REMINDER, headers={"Idempotency-Key": "k"}).json()["id"] for _ in range(2)}
    assert len(ids) == 2


def test_orders(client: TestClient, shop: dict[str, str]) -> None:
    client.headers.update(shop)
    assert client.get("/customers", params={"name": "jonas"}).json()["items"][0]["id"] == "cus_10"
    assert client.get("/customers/cus_10").json()["country_code"] == "DE"
    placed = client.post("/orders", json=ORDER)
    assert placed.status_code == 201
    order = placed.json()
    # 2 x 189.00 EUR and one mouse of 89.00 CHF at 0.9194 CHF a euro.
    assert order["total"] == {"amount": 378 + 96.80, "currency": "EUR"}
    assert client.get(f"/orders/{order['id']}").json() == order
    newest = client.get("/customers/cus_10/orders", params={"page_size": 1}).json()["orders"][0]
    assert newest["id"] == order["id"]
    assert client.post(f"/orders/{order['id']}/cancel").json()["status"] == "cancelled"
    assert client.post("/orders/ord_1/cancel").status_code == 409
    in_yen = client.post("/orders", json=ORDER | {"currency": "JPY"}).json()
    assert in_yen["total"]["amount"] == int(in_yen["total"]["amount"])


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"customer_id": "cus_999"}, 404),
        ({"customer_id": "Jonas Weber"}, 422),
        ({"lines": [{"sku": "ZZZ-9999"}]}, 404),
        ({"lines": [{"sku": "AUD-1001"}, {"sku": "AUD-1001"}]}, 422),
        ({"lines": []}, 422),
        ({"currency": "XAU"}, 404),
    ],
)
def test_impossible_orders(client: TestClient, shop: dict[str, str], change: dict[str, Any], status: int) -> None:
    assert client.post("/orders", json=ORDER | change, headers=shop).status_code == status


def test_contacts_lead_to_airports(client: TestClient) -> None:
    client.headers["Authorization"] = f"Bearer {BEARER}"
    found = client.get("/contacts", params={"name": "nora"}).json()["items"][0]
    contact = client.get(f"/contacts/{found['id']}").json()
    assert contact["home_airport"] == "OSL"
    assert client.get(f"/airports/{contact['home_airport']}").json()["timezone"] == "Europe/Oslo"
    assert client.get("/contacts", params={"department": "engineering", "limit": 50}).json()["total"] == 4


def test_data_files_agree_with_each_other(client: TestClient, shop: dict[str, str]) -> None:
    client.headers.update(shop)
    rows = client.app.state.reference.rows  # type: ignore[attr-defined]
    for contact in rows("contacts"):
        airport = client.get(f"/airports/{contact['home_airport']}").json()
        assert airport["country_code"] == contact["country_code"]
        phone = client.get("/phone-numbers/parse", params={"number": contact["phone"]}).json()
        assert (phone["country_code"], phone["is_valid"]) == (contact["country_code"], True), contact
    for product in rows("products"):
        assert client.get(f"/countries/{product['origin_country_code']}").status_code == 200
    for order in rows("orders"):
        assert client.get(f"/orders/{order['id']}").json()["status"] == order["status"]


def test_collections_are_capped(client: TestClient) -> None:
    client.auth = BASIC
    codes = [client.post("/reminders", json=REMINDER).status_code for _ in range(51)]
    assert codes == [201] * 50 + [409]


def test_two_apps_share_nothing(settings: SandboxSettings, app: FastAPI, client: TestClient) -> None:
    client.auth = BASIC
    client.post("/reminders", json=REMINDER)
    other = TestClient(create_app(settings), headers={})
    other.auth = BASIC
    assert other.get("/reminders").json()["total"] == 0
