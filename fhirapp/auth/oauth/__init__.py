"""The authorization server: OAuth 2.0, OpenID Connect and SMART App Launch, one file per part."""
