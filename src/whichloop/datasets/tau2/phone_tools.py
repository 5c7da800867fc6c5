"""The tools of the customer in tau2-bench's domain `telecom`, which are the agent's too where it works alone. Own code.

What is checked gives values; what changes the phone gives the new value and the status bar, which tau2's tools put in words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import phone
from .domain import Database, Functions, Record, RefusedCall
from .phone import ApnSettings, NetworkMode

VPN = {"server_address": "192.168.1.1", "protocol": "OpenVPN", "server_performance": "excellent"}
NO_WIFI = {"wifi_connected": False, "wifi_ssid": None, "wifi_signal_strength": "none"}


def _now(db: Database, **changed: Any) -> Record:
    return {**changed, "status_bar": phone.status_bar(db)}


def _searched(db: Database, **changed: Any) -> Record:
    """Search the network anew, and tell what was changed."""
    phone.search_network(db)
    return _now(db, **changed)


def _app(db: Database, app_name: str) -> Record:
    if app_name not in db["device"]["app_statuses"]:
        raise RefusedCall(f"No app {app_name!r} is on this phone")
    app: Record = db["device"]["app_statuses"][app_name]
    return app


def _flip(db: Database, setting: str, *, searches: bool) -> Record:
    db["device"][setting] = not db["device"][setting]
    return (_searched if searches else _now)(db, **{setting: db["device"][setting]})


def _settings(db: Database, *names: str) -> Record:
    return {name: db["device"][name] for name in names}


# --- checks ---


def check_status_bar(db: Database) -> Record:
    """Read the phone's status bar: signal, network, mobile data, data saver, Wi-Fi, VPN, battery."""
    return phone.status_bar(db)


def check_network_status(db: Database) -> Record:
    """Check how the phone is connected: airplane mode, SIM card, mobile network, mobile data, roaming, Wi-Fi."""
    return {
        "sim_status": phone.sim_status(db),
        **_settings(db, "airplane_mode", "network_connection_status", "network_signal_strength", "network_technology_connected"),
        **_settings(db, "data_enabled", "roaming_enabled", "wifi_enabled", "wifi_connected", "wifi_ssid"),
    }


def check_network_mode_preference(db: Database) -> str:
    """Check which kinds of mobile network the phone may use."""
    return str(db["device"]["network_mode_preference"])


def run_speed_test(db: Database) -> Record:
    """Measure the download speed of the mobile internet, in Mbit/s."""
    measured = phone.speed(db)
    return {"connected": False} if measured is None else {"connected": True, "mbps": measured[0], "quality": measured[1]}


def check_sim_status(db: Database) -> str:
    """Check whether the SIM card is active, missing, or locked with a PIN or PUK."""
    return phone.sim_status(db)


def check_data_restriction_status(db: Database) -> Record:
    """Check whether the phone saves data."""
    return _settings(db, "data_saver_mode")


def check_apn_settings(db: Database) -> Record:
    """Check the access point: its name, and the address for picture messages."""
    settings = db["device"]["active_apn_settings"]
    return {"apn_name": settings["apn_name"], "mmsc_url": settings["mmsc_url"]}


def check_wifi_status(db: Database) -> Record:
    """Check whether Wi-Fi is on, which network it is connected to, and how strong its signal is."""
    return _settings(db, "wifi_enabled", "wifi_connected", "wifi_ssid", "wifi_signal_strength")


def check_wifi_calling_status(db: Database) -> Record:
    """Check whether calls go over Wi-Fi."""
    return _settings(db, "wifi_calling_enabled")


def check_vpn_status(db: Database) -> Record:
    """Check whether a VPN is set up and connected, and how it performs."""
    device = db["device"]
    details = (device["vpn_details"] or None) if device["vpn_connected"] else None
    return {"enabled": device["vpn_enabled_setting"], "connected": device["vpn_connected"], "details": details}


def check_installed_apps(db: Database) -> list[str]:
    """List the apps on the phone."""
    return list(db["device"]["app_statuses"])


def check_app_status(db: Database, app_name: str) -> Record:
    """Check the state of an app: what it may do."""
    return {"app_name": app_name, "permissions": _app(db, app_name)["permissions"]}


def check_app_permissions(db: Database, app_name: str) -> list[str]:
    """List what an app is permitted."""
    return [name for name, allowed in _app(db, app_name)["permissions"].items() if allowed]


def can_send_mms(db: Database) -> bool:
    """Check whether the messaging app can send picture messages (MMS)."""
    return phone.can_send_pictures(db)


def check_payment_request(db: Database) -> Record | None:
    """Check whether the company asks for a payment, for which bill, and of how much."""
    payment_request = db["surroundings"]["payment_request"]
    return None if payment_request is None else {"bill_id": payment_request["bill_id"], "amount_due": payment_request["amount_due"]}


# --- changes ---


def set_network_mode_preference(db: Database, mode: NetworkMode) -> Record:
    """Choose which kinds of mobile network the phone may use."""
    db["device"]["network_mode_preference"] = mode
    return _searched(db, network_mode_preference=mode)


def toggle_airplane_mode(db: Database) -> Record:
    """Turn airplane mode on or off; on, it cuts every connection."""
    device = db["device"]
    device["airplane_mode"] = not device["airplane_mode"]
    if device["airplane_mode"] or device["wifi_enabled"]:
        device.update(NO_WIFI)
    if device["airplane_mode"]:
        device.update(vpn_connected=False, vpn_details=None)
    return _searched(db, airplane_mode=device["airplane_mode"])


def reseat_sim_card(db: Database) -> Record:
    """Take the SIM card out and put it in again."""
    db["device"]["sim_card_missing"] = False
    return _searched(db, sim_status=phone.sim_status(db))


def toggle_data(db: Database) -> Record:
    """Turn mobile data on or off."""
    return _flip(db, "data_enabled", searches=True)


def toggle_roaming(db: Database) -> Record:
    """Turn data roaming on the phone on or off: whether it uses networks abroad."""
    return _flip(db, "roaming_enabled", searches=True)


def toggle_data_saver_mode(db: Database) -> Record:
    """Turn the data saver on or off; on, the internet is slower."""
    return _flip(db, "data_saver_mode", searches=False)


def set_apn_settings(db: Database, apn_settings: ApnSettings) -> Record:
    """Set the access point."""
    settings = ApnSettings.model_validate(apn_settings)
    db["device"]["active_apn_settings"] = settings.model_dump()
    return _searched(db, apn_name=settings.apn_name)


def reset_apn_settings(db: Database) -> Record:
    """Have the access point set to its defaults when the phone is started next."""
    db["device"]["active_apn_settings"]["reset_at_reboot"] = True
    return _searched(db, reset_at_reboot=True)


def toggle_wifi(db: Database) -> Record:
    """Turn Wi-Fi on or off; not in airplane mode."""
    device = db["device"]
    if device["airplane_mode"]:
        raise RefusedCall("Wi-Fi cannot be changed in airplane mode")
    if device["wifi_enabled"]:
        device.update(NO_WIFI)
    return _flip(db, "wifi_enabled", searches=False)


def toggle_wifi_calling(db: Database) -> Record:
    """Turn calls over Wi-Fi on or off."""
    return _flip(db, "wifi_calling_enabled", searches=False)


def connect_vpn(db: Database) -> Record:
    """Connect to the VPN, if it is not connected."""
    if not db["device"]["vpn_connected"]:
        db["device"].update(vpn_connected=True, vpn_details=dict(VPN))
    return _now(db, vpn_connected=True)


def disconnect_vpn(db: Database) -> Record:
    """Disconnect from the VPN, if it is connected."""
    if db["device"]["vpn_connected"]:
        db["device"].update(vpn_connected=False, vpn_details=None)
    return _now(db, vpn_connected=False)


def grant_app_permission(db: Database, app_name: str, permission: str) -> Record:
    """Permit something to an app."""
    _permit(db, app_name, permission, allowed=True)
    return _now(db, app_name=app_name, permission=permission.lower(), granted=True)


def _permit(db: Database, app_name: str, permission: str, *, allowed: bool) -> None:
    permissions = _app(db, app_name)["permissions"]
    if permission.lower() not in permissions:
        raise RefusedCall(f"App {app_name!r} has no permission {permission!r}; there are {', '.join(permissions)}")
    permissions[permission.lower()] = allowed


def reboot_device(db: Database) -> Record:
    """Start the phone again; it searches its network, and takes the default access point if that was asked for."""
    device = db["device"]
    if device["active_apn_settings"]["reset_at_reboot"]:
        device["active_apn_settings"] = ApnSettings().model_dump()
    return _searched(db, rebooted=True)


def make_payment(db: Database) -> Record:
    """Pay the bill that the company asks for."""
    payment_request = db["surroundings"]["payment_request"]
    if payment_request is None:
        raise RefusedCall("No payment is asked for")
    payment_request["paid"] = True
    return {"bill_id": payment_request["bill_id"], "paid_usd": payment_request["amount_due"]}


CHECKS = (
    *(check_status_bar, check_network_status, check_network_mode_preference, run_speed_test, check_sim_status),
    *(check_data_restriction_status, check_apn_settings, check_wifi_status, check_wifi_calling_status, check_vpn_status),
    *(check_installed_apps, check_app_status, check_app_permissions, can_send_mms, check_payment_request),
)
CHANGES = (
    *(set_network_mode_preference, toggle_airplane_mode, reseat_sim_card, toggle_data, toggle_roaming, toggle_data_saver_mode),
    *(set_apn_settings, reset_apn_settings, toggle_wifi, toggle_wifi_calling, connect_vpn, disconnect_vpn, grant_app_permission),
    *(reboot_device, make_payment),
)


# --- what tasks begin with ---


def _becomes(*, searches: bool = True, **settings: Any) -> Callable[[Database], None]:
    """Return a function that sets the phone."""

    def change(db: Database) -> None:
        db["device"].update(settings)
        if searches:
            phone.search_network(db)

    return change


def _turned(setting: str, toggle: Callable[[Database], Any], wanted: bool) -> Callable[[Database], None]:
    """Return a function that brings a setting to a value; it turns it over, twice if need be, as tau2 does."""

    def bring(db: Database) -> None:
        toggle(db)
        if db["device"][setting] is not wanted:
            toggle(db)

    return bring


def break_apn_settings(db: Database) -> None:
    """Give the phone an access point that does not work."""
    db["device"]["active_apn_settings"]["apn_name"] = "broken"
    phone.search_network(db)


def break_vpn(db: Database) -> None:
    """Connect to the VPN, by a slow server."""
    connect_vpn(db)
    db["device"]["vpn_details"]["server_performance"] = "poor"


def set_wifi_calling(db: Database, enabled: bool, mms_over_wifi: bool | None = None) -> None:
    """Set whether calls, and picture messages, go over Wi-Fi."""
    db["device"]["wifi_calling_enabled"] = enabled
    if mms_over_wifi is not None:
        db["device"]["wifi_calling_mms_over_wifi"] = mms_over_wifi


SETUP: Functions = {
    "break_apn_settings": break_apn_settings,
    "break_vpn": break_vpn,
    "set_wifi_calling": set_wifi_calling,
    "remove_app_permission": lambda db, app_name, permission: _permit(db, app_name, permission, allowed=False),
    "lock_sim_card": lambda db, mode: _becomes(sim_card_status=f"locked_{mode}")(db),  # no tool can undo it
    "set_user_info": lambda db, name, phone_number: db["surroundings"].update(name=name, phone_number=phone_number),
    "set_user_location": lambda db, abroad: db["surroundings"].update(is_abroad=abroad),
    "break_apn_mms_setting": lambda db: db["device"]["active_apn_settings"].update(mmsc_url=None),
    "unseat_sim_card": _becomes(sim_card_missing=True),
    "turn_data_on": _becomes(searches=False, data_enabled=True),
    "simulate_network_search": phone.search_network,
    "turn_airplane_mode_on": _turned("airplane_mode", toggle_airplane_mode, True),
    "turn_airplane_mode_off": _turned("airplane_mode", toggle_airplane_mode, False),
    "turn_data_off": _turned("data_enabled", toggle_data, False),
    "turn_roaming_on": _turned("roaming_enabled", toggle_roaming, True),
    "turn_roaming_off": _turned("roaming_enabled", toggle_roaming, False),
    "turn_data_saver_mode_on": _turned("data_saver_mode", toggle_data_saver_mode, True),
    "turn_data_saver_mode_off": _turned("data_saver_mode", toggle_data_saver_mode, False),
}


# --- what may be asserted ---


def assert_internet_speed(db: Database, expected_speed: float, expected_desc: str | None = None) -> bool:
    """Return whether the internet is so fast, in Mbit/s, and has this word."""
    mbps, word = phone.speed(db) or (0.0, "no connection")
    return mbps >= expected_speed and (expected_desc is None or word == expected_desc.lower())


ASSERTIONS: Functions = {
    "assert_internet_speed": assert_internet_speed,
    "assert_internet_not_excellent": lambda db: (phone.speed(db) or (0.0, ""))[1] != "excellent",
    "assert_mobile_data_status": lambda db, expected_status: phone.has_mobile_data(db) is expected_status,
    "assert_can_send_mms": lambda db, expected_status: phone.can_send_pictures(db) is expected_status,
    "assert_mobile_data_usage_exceeded": lambda db, expected_status: (
        db["surroundings"]["mobile_data_usage_exceeded"] is expected_status
    ),
    "assert_airplane_mode_status": lambda db, expected_status: db["device"]["airplane_mode"] == expected_status,
    "assert_service_status": lambda db, expected_status: db["device"]["network_connection_status"] == expected_status,
    "assert_mobile_roaming_status": lambda db, expected_status: db["device"]["roaming_enabled"] == expected_status,
    "assert_mobile_data_saver_mode_status": lambda db, expected_status: db["device"]["data_saver_mode"] == expected_status,
}
