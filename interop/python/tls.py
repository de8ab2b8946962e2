"""The scenarios of interop/TLS.md, for any library."""

import os
import pathlib
import ssl

BODY = b"hare" * 25_000
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
# The version, the certificate that the client shows, the authority that it trusts, and whether it is refused.
SCENARIOS = {
    "tls-1.2": ("1.2", None, "ca", False),
    "tls-1.3": ("1.3", None, "ca", False),
    "tls-external-1.2": ("1.2", "client", "ca", False),
    "tls-external-1.3": ("1.3", "client", "ca", False),
    "tls-expired": ("1.3", "expired", "ca", True),
    "tls-revoked": ("1.2", "revoked", "ca", True),
    "tls-foreign": ("1.2", "foreign", "ca", True),
    "tls-unknown-ca": ("1.3", None, "foreign_ca", True),
}
# Where the certificates are; these scenarios run if it is set, and no others.
DIRECTORY = os.environ.get("INTEROP_TLS")


def port(variable="INTEROP_TLS_PORT"):
    return int(os.environ[variable])


def _context(version, certificate, authority):
    directory = pathlib.Path(DIRECTORY)
    context = ssl.create_default_context(cafile=directory / f"{authority}_certificate.pem")
    context.minimum_version = context.maximum_version = VERSIONS[version]
    if certificate:
        context.load_cert_chain(directory / f"{certificate}_certificate.pem", directory / f"{certificate}_key.pem")
    return context


def register(library, steps, refusal):
    """`steps(ctx, context, external)` connects, publishes BODY and takes it back, or raises a `refusal`."""

    def scenario(version, certificate, authority, is_refused):
        def run(ctx):
            ctx.is_refused = is_refused
            try:
                steps(ctx, _context(version, certificate, authority), certificate is not None)
            except refusal:
                if not is_refused:
                    raise
            else:
                assert not is_refused, "it is let in"

        return run

    library.scenarios = {name: scenario(*how) for name, how in SCENARIOS.items()}
