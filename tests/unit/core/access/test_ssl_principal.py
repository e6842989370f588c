"""Names of certificates, and the rules that make principals of them."""

from __future__ import annotations

import pytest

from chronik.core.access.ssl_principal import NoMatchingRule, distinguished_name, mapper_of

SUBJECT = ((("countryName", "DE"),), (("organizationName", "Acme, Inc."),), (("commonName", "node 1"),))


def test_a_name_is_written_last_part_first_with_short_types_and_escapes() -> None:
    assert distinguished_name(SUBJECT) == r"CN=node 1,O=Acme\, Inc.,C=DE"


def test_an_email_address_is_written_as_java_writes_it() -> None:
    name = distinguished_name(((("emailAddress", "a@b"),), (("commonName", "#x "),)))
    assert name == r"CN=\#x\ ,1.2.840.113549.1.9.1=#1603614062"


def test_parts_with_several_values_are_joined() -> None:
    assert distinguished_name(((("commonName", "a"), ("userId", "b")),)) == "CN=a+UID=b"


# From Kafka's SslPrincipalMapperTest
RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,o=mycp,l=fulton,st=md,c=us", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems", "OU=JavaSoft,O=Sun Microsystems"),
    ],
)
def test_the_first_rule_that_matches_gives_the_name(name: str, expected: str) -> None:
    assert mapper_of(RULES)(name) == expected


def test_default_is_the_name_itself() -> None:
    assert mapper_of("DEFAULT")("CN=a,O=b") == "CN=a,O=b" == mapper_of("")("CN=a,O=b")


def test_where_no_rule_matches_there_is_no_principal() -> None:
    with pytest.raises(NoMatchingRule):
        mapper_of("RULE:^CN=(.*?),OU=x$/$1/")("CN=a,OU=y")


def test_a_pattern_is_the_whole_name_not_a_part() -> None:
    with pytest.raises(NoMatchingRule):
        mapper_of("RULE:CN=admin/root/")("CN=admin,O=attacker")


@pytest.mark.parametrize(
    "rules", ["default", "RULE:", "RULE:a/b", "RULE:a/b/X", "RULE:(/a/", "RULE:(a)/$2/", "DEFAULT,whatever"]
)
def test_rules_that_are_none_are_refused(rules: str) -> None:
    with pytest.raises(ValueError, match="Invalid rule"):
        mapper_of(rules)
