"""Accounts of people: sign-in, second factor, sessions, the identity provider, administration."""

from __future__ import annotations

from fhirapp.feature import ACCOUNT, N_, PEOPLE, Feature, MenuLink

FEATURE = Feature(
    name="accounts",
    blueprints=(
        "fhirapp.features.accounts.sign_in:blueprint",
        "fhirapp.features.accounts.provider:blueprint",
        "fhirapp.features.accounts.account:blueprint",
        "fhirapp.features.accounts.users:blueprint",
    ),
    commands={
        "user": (
            "fhirapp.features.accounts.cli:user",
            "Add people who can sign in, change and disable them.",
        ),
    },
    probes=("fhirapp.features.accounts.probes:PROBES",),
    setup_steps=(
        "fhirapp.features.accounts.probes:add_users",
        "fhirapp.features.accounts.probes:add_second_administrator",
        "fhirapp.features.accounts.probes:add_second_factor",
    ),
    navigation=(
        MenuLink(PEOPLE, 20, "/admin/users", N_("Users")),
        MenuLink(ACCOUNT, 10, "/account", N_("Your account"), is_exact=True),
        MenuLink(ACCOUNT, 20, "/account/apps", N_("Connected apps")),
    ),
    help={"/account": "administration"},
)
