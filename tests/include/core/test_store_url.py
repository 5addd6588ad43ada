"""Credentials do not belong into the URL of a store, and are not repeated where they stand in one."""

import pytest

from include.core.errors import UserError
from include.core.store import ObjectStore
from include.core.store_url import has_credentials, without_credentials


@pytest.mark.parametrize("url", ["s3://user:SECRET@bucket/x", "az://SECRET@bucket", "gs://bucket/x?key=SECRET"])
def test_a_store_refuses_them(url):
    with pytest.raises(UserError, match=r"has credentials in it .*\*\*\*") as caught:
        ObjectStore(url)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("url", ["s3://bucket/a@b/c", "file:///home/a@b/x?y", "gs://bucket"])
def test_a_url_without_them_is_taken(url):
    assert not has_credentials(url)
    assert ObjectStore(url).url == url


def test_what_is_no_credential_is_shown_as_it_is():
    assert without_credentials("file:///home/a@b/x?y") == "file:///home/a@b/x?y"
    assert without_credentials("postgresql://u:SEC@RET@host/db") == "postgresql://***@host/db"
    assert without_credentials("here") == "here"
