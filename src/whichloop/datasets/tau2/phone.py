"""The customer's phone in tau2-bench's domain `telecom`: how it finds a network, and how fast it is there. Own code.

What breaks a phone, what each setting does and the figures of the speed test are tau2's.
"""

from __future__ import annotations

from typing import Any, Literal

from ..importing.json_files import JsonRow
from .domain import ClosedRow, Database, shape, table

NetworkMode = Literal["4g_5g_preferred", "4g_only", "3g_only", "2g_only"]
Level = Literal["none", "poor", "fair", "good", "excellent"]

SIGNALS: dict[str, Level] = {"2G": "poor", "3G": "fair", "4G": "good", "5G": "excellent"}
"""Signal of each network where the customer is, unless the data say otherwise."""
SPEEDS = {"2G": (0.1, 0.4), "3G": (1.0, 5.0), "4G": (10.0, 100.0), "5G": (50.0, 500.0)}
"""Network → its slowest and fastest download, in Mbit/s; the phone gets the middle, times what the rest leaves of it."""
SIGNAL_FACTORS = {"none": 0.0, "poor": 0.2, "fair": 0.5, "good": 0.8, "excellent": 1.0}
POOR_VPN_FACTOR, DATA_SAVER_FACTOR = 0.1, 0.2
SPEED_WORDS = ((1.0, "very poor"), (5.0, "poor"), (25.0, "fair"), (100.0, "good"))
"""Speeds below the number have the word; others are excellent."""
_NETWORKS = {"4g_only": "4G", "3g_only": "3G", "2g_only": "2G"}


class ApnSettings(ClosedRow):
    """The access point that a phone uses for the internet and for picture messages."""

    apn_name: Literal["internet", "broken"] = "internet"
    reset_at_reboot: bool = False
    mms_apn: str | None = "mms"
    mmsc_url: str | None = "http://mms.carrier.com/mms/wapenc"
    mms_proxy: str | None = None
    mms_port: int | None = None


_PERMISSIONS = shape(ClosedRow, **dict.fromkeys(("sms", "storage", "phone", "network"), (bool, False)))
_VPN = shape(
    JsonRow,
    **dict.fromkeys(("server_address", "protocol"), (str | None, None)),
    server_performance=(Literal["unknown", "poor", "fair", "good", "excellent"], "unknown"),
)
_DEVICE = shape(
    ClosedRow,
    **dict.fromkeys(("sim_card_missing", "airplane_mode", "roaming_enabled", "data_saver_mode"), (bool, False)),
    **dict.fromkeys(("wifi_enabled", "wifi_connected", "wifi_calling_enabled", "wifi_calling_mms_over_wifi"), (bool, False)),
    **dict.fromkeys(("vpn_enabled_setting", "vpn_connected"), (bool, False)),
    sim_card_status=(Literal["active", "missing", "locked_pin", "locked_puk"], "active"),
    network_signal_strength=(Level, "good"),
    network_technology_connected=(Literal["none", "2G", "3G", "4G", "5G"], "5G"),
    network_connection_status=(Literal["connected", "searching", "no_service", "emergency_only"], "connected"),
    battery_level=(int, 80),
    data_enabled=(bool, True),
    network_mode_preference=(NetworkMode, "4g_5g_preferred"),
    active_apn_settings=(ApnSettings, ApnSettings()),
    wifi_ssid=(str | None, None),
    wifi_signal_strength=(Level, "none"),
    vpn_details=(_VPN | None, None),
    app_statuses=(table(JsonRow, app_name=str, permissions=(_PERMISSIONS, _PERMISSIONS())), {}),
)
_SURROUNDINGS = shape(
    ClosedRow,
    **dict.fromkeys(("name", "phone_number"), (str | None, None)),
    **dict.fromkeys(("is_abroad", "roaming_allowed", "mobile_data_usage_exceeded"), (bool, False)),
    signal_strength=(dict[str, Level], SIGNALS),
    line_active=(bool, True),
    payment_request=(shape(JsonRow, bill_id=str, amount_due=float, paid=(bool, False)) | None, None),
)
TABLES = shape(ClosedRow, device=(_DEVICE, _DEVICE()), surroundings=(_SURROUNDINGS, _SURROUNDINGS()))
"""The shape of `user_db.toml`."""


def sim_status(db: Database) -> str:
    """Return whether the SIM card is active, missing or locked."""
    device = db["device"]
    return "missing" if device["sim_card_missing"] else str(device["sim_card_status"])


def search_network(db: Database) -> None:
    """Connect to the network that the mode prefers, or to none: without a SIM card, an access point or an active line."""
    device, around = db["device"], db["surroundings"]
    has_none = (
        sim_status(db) != "active"
        or device["airplane_mode"]
        or device["active_apn_settings"]["apn_name"] == "broken"
        or not around["line_active"]
    )
    if has_none:
        device.update(network_connection_status="no_service", network_technology_connected="none", network_signal_strength="none")
        return
    signals = around["signal_strength"]
    best = "5G" if signals.get("5G", "none") != "none" else "4G"
    network = _NETWORKS.get(device["network_mode_preference"], best)
    device.update(
        network_connection_status="connected",
        network_technology_connected=network,
        network_signal_strength=signals.get(network, "none"),
    )


def has_mobile_data(db: Database) -> bool:
    """Return whether the phone reaches the internet by its mobile network."""
    device, around = db["device"], db["surroundings"]
    may_roam = device["roaming_enabled"] and around["roaming_allowed"]
    return bool(
        not device["airplane_mode"]
        and device["network_signal_strength"] != "none"
        and device["network_connection_status"] != "no_service"
        and (may_roam or not around["is_abroad"])
        and device["data_enabled"]
        and not around["mobile_data_usage_exceeded"]
    )


def speed(db: Database) -> tuple[float, str] | None:
    """Return the download speed in Mbit/s and a word for it; None without a connection."""
    if not has_mobile_data(db):
        return None
    device = db["device"]
    vpn = device["vpn_details"] if device["vpn_connected"] else None
    factor = SIGNAL_FACTORS[device["network_signal_strength"]]
    factor *= POOR_VPN_FACTOR if vpn and vpn["server_performance"] == "poor" else 1.0
    factor *= DATA_SAVER_FACTOR if device["data_saver_mode"] else 1.0
    mbps = round(sum(SPEEDS.get(device["network_technology_connected"], (0.0, 0.0))) / 2 * factor, 2)
    return mbps, next((word for limit, word in SPEED_WORDS if mbps < limit), "excellent")


def can_send_pictures(db: Database) -> bool:
    """Return whether the messaging app can send picture messages (MMS)."""
    device = db["device"]
    app = device["app_statuses"].get("messaging")
    return bool(
        has_mobile_data(db)
        and device["network_technology_connected"] != "2G"
        and not (device["wifi_calling_enabled"] and device["wifi_calling_mms_over_wifi"])
        and device["active_apn_settings"]["mmsc_url"] is not None
        and app
        and app["permissions"]["storage"]
        and app["permissions"]["sms"]
    )


def status_bar(db: Database) -> dict[str, Any]:
    """Return what the top of the phone's screen shows."""
    device = db["device"]
    items: dict[str, Any] = {"airplane_mode": device["airplane_mode"]}
    if not device["airplane_mode"]:
        network = device["network_technology_connected"]
        has_data = device["data_enabled"] and network != "none"
        items |= {"signal": device["network_signal_strength"], "network": network, "mobile_data": has_data}
        items |= {"data_saver": True} if has_data and device["data_saver_mode"] else {}
    if device["wifi_enabled"] and device["wifi_connected"]:
        items["wifi"] = device["wifi_ssid"] or "connected"
    if device["vpn_connected"]:
        items["vpn"] = "connected"
    return items | {"battery_percent": device["battery_level"]}
