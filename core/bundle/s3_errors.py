"""What went wrong between this machine and S3, in words for a log, and whether another try may help.

Errors are told by what they carry and are called, so that boto3 is not loaded for it.
"""

from __future__ import annotations

from collections.abc import Mapping

_REGION_CODES = ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException")
_RETRIED_CODES = ("SlowDown", "RequestTimeout", "Throttling", "ThrottlingException", "RequestTimeTooSkewed")


class Damaged(Exception):
    """What came is not what the manifest promises."""


def explain(error: Exception) -> tuple[str, bool]:
    """What went wrong in a request to S3, in a few words, and whether another try may help."""
    status, code = status_of(error)
    if isinstance(error, Damaged):
        return str(error), True
    if code in _REGION_CODES or status == 301:
        region = _headers(error).get("x-amz-bucket-region", "another region")
        return f"the bucket is in {region}, which is not where this function asks ({code})", False
    if code == "NoSuchBucket":
        return "there is no such bucket", False
    if status == 404:
        return "there is no such object", False
    if status == 412:
        return "somebody else wrote there meanwhile", False
    if status in (401, 403):
        return f"no permission ({code}; S3 says this of a missing object, too, to who may not list the bucket)", False
    if status:
        return f"S3 answered {status} ({code})", status >= 500 or status == 429 or code in _RETRIED_CODES
    kind = type(error).__name__
    if kind in ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"):
        return f"there are no AWS credentials ({kind})", False
    if isinstance(error, TimeoutError) or "Timeout" in kind:
        return f"S3 is too slow, or does not answer ({kind})", True
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ConnectionError):
        return f"{error.strerror} (errno {error.errno})", False
    return f"the connection to S3 failed ({kind})", True


def status_of(error: Exception) -> tuple[int, str]:
    """HTTP status and error code of what botocore raised for an answer, (0, "") for anything else."""
    answer = getattr(error, "response", None)
    if not isinstance(answer, dict):
        return 0, ""
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return int(status), str(answer.get("Error", {}).get("Code", "")) or "no code"


def _headers(error: Exception) -> Mapping[str, str]:
    headers: Mapping[str, str] = getattr(error, "response", {}).get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return headers
