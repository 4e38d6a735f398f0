"""Classification of the errors of each store's library. The classes imitate those libraries, so that none has to be installed."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from indextables.storage.faults import FaultKind, fault_of, silence_loggers


class HttpError(Exception):
    """gcsfs keeps the status as `code`."""

    def __init__(self, code: int) -> None:
        super().__init__(f"https://storage.googleapis.com/canary, {code}")
        self.code = code


class TransferEncodingError(Exception):
    """aiohttp's error for a truncated answer; its code is not the store's."""

    code = 400


class HttpResponseError(Exception):
    """Azure's library has a response object, its status and a code."""

    def __init__(self, status_code: int, error_code: str) -> None:
        super().__init__(f"canary {error_code}")
        self.status_code = status_code
        self.error_code = error_code
        self.response = object()


class ClientAuthenticationError(Exception):
    pass


class DefaultCredentialsError(Exception):
    pass


def behind(error: BaseException, cause: BaseException) -> BaseException:
    """`error` raised while `cause` is handled, as adlfs does."""
    error.__context__ = cause
    return error


def botocore(status: int, code: str) -> Exception:
    error: Any = OSError("canary")
    error.response = {"ResponseMetadata": {"HTTPStatusCode": status}, "Error": {"Code": code}}
    return error


CASES = [
    (HttpError(503), FaultKind.LOST, "the store answered 503"),
    (HttpError(409), FaultKind.LOST, "the store answered 409"),
    (HttpError(401), FaultKind.REFUSED, "the store refused with 401"),
    (FileExistsError("canary"), FaultKind.EXISTS, "the object already exists"),
    (OSError("Forbidden: https://canary"), FaultKind.REFUSED, "the store denies access"),
    (DefaultCredentialsError("canary"), FaultKind.REFUSED, "no credentials were found"),
    (HttpResponseError(503, "ServerBusy"), FaultKind.LOST, "the store answered 503 ServerBusy"),
    (HttpResponseError(403, "AuthorizationFailure"), FaultKind.REFUSED, "the store refused with 403 AuthorizationFailure"),
    (HttpResponseError(404, "BlobNotFound"), FaultKind.MISSING, "the store answered 404 BlobNotFound"),
    (HttpResponseError(404, "ContainerNotFound"), FaultKind.REFUSED, "there is no such bucket"),
    (behind(FileExistsError("canary"), HttpResponseError(409, "BlobAlreadyExists")), FaultKind.EXISTS, "the object already exists"),
    (behind(FileNotFoundError("canary"), HttpResponseError(404, "BlobNotFound")), FaultKind.MISSING, "the store answered 404 BlobNotFound"),
    (ClientAuthenticationError("canary"), FaultKind.REFUSED, "no credentials were found"),
    (botocore(412, "PreconditionFailed"), FaultKind.EXISTS, "the object already exists"),
    (botocore(409, "ConditionalRequestConflict"), FaultKind.LOST, "the store answered 409 ConditionalRequestConflict"),
    (botocore(404, "NoSuchBucket"), FaultKind.REFUSED, "there is no such bucket"),
    (PermissionError("canary"), FaultKind.REFUSED, "the store denies access"),
    (TimeoutError("canary"), FaultKind.LOST, "did not answer in time"),
    (ConnectionRefusedError("canary"), FaultKind.UNSENT, "could not be reached"),
    (behind(OSError("canary"), TransferEncodingError("canary")), FaultKind.LOST, "the connection to the store was lost"),
    (ValueError("canary: the answer was cut"), FaultKind.LOST, "the connection to the store was lost"),
]


@pytest.mark.parametrize(("error", "kind", "words"), CASES)
def test_errors_are_classified(error: BaseException, kind: FaultKind, words: str) -> None:
    fault = fault_of(error)
    assert fault.kind is kind
    assert words in fault.sentence
    assert "canary" not in fault.sentence


def test_client_libraries_are_silent_unless_enabled(caplog: pytest.LogCaptureFixture) -> None:
    """R19: their warnings contain addresses."""
    asked, other = logging.getLogger("canary.asked"), logging.getLogger("canary.other")
    asked.setLevel(logging.DEBUG)
    silence_loggers(["canary.asked", "canary.other"])
    with caplog.at_level(logging.DEBUG):
        for logger in (asked, other):
            logger.error("retrying http://canaryhost of %s", logger.name)
    assert [record.name for record in caplog.records] == ["canary.asked"]
