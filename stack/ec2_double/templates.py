"""Launch templates: made, described, merged into launches, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stack.ec2_double.account import Account
from stack.ec2_double.answers import page, read_tags, select, shown_tags, tags_of
from stack.ec2_double.errors import AwsError

_SHOWN = (
    "LaunchTemplateId", "LaunchTemplateName", "CreateTime", "CreatedBy", "DefaultVersionNumber", "LatestVersionNumber",
    "Tags",
)  # fmt: skip


def _shown(template: Mapping[str, Any]) -> dict[str, Any]:
    return {key: template[key] for key in _SHOWN}


def create_launch_template(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """CreateLaunchTemplate."""
    name = parameters["LaunchTemplateName"]
    if any(t["LaunchTemplateName"] == name and t["Region"] == region for t in account.templates.values()):
        raise AwsError(
            "InvalidLaunchTemplateName.AlreadyExistsException", f"Launch template name already in use: {name}"
        )
    template_id = account.new_id("lt")
    template = {
        "Region": region,
        "LaunchTemplateId": template_id,
        "LaunchTemplateName": name,
        "CreateTime": account.clock.now(),
        "CreatedBy": f"arn:aws:iam::{account.account_id}:root",
        "DefaultVersionNumber": 1,
        "LatestVersionNumber": 1,
        "Tags": shown_tags(tags_of(parameters, "launch-template")),
        "Versions": {},
    }
    account.templates[template_id] = template
    _add_version(account, template, parameters["LaunchTemplateData"], parameters.get("VersionDescription"))
    return {"LaunchTemplate": _shown(template)}


def _add_version(
    account: Account, template: dict[str, Any], data: Mapping[str, Any], description: str | None
) -> dict[str, Any]:
    number = max(template["Versions"], default=0) + 1
    version = {
        "LaunchTemplateId": template["LaunchTemplateId"],
        "LaunchTemplateName": template["LaunchTemplateName"],
        "VersionNumber": number,
        "VersionDescription": description,
        "CreateTime": account.clock.now(),
        "CreatedBy": template["CreatedBy"],
        "LaunchTemplateData": dict(data),
    }
    template["Versions"][number] = version
    template["LatestVersionNumber"] = number
    return _with_default(template, version)


def _with_default(template: Mapping[str, Any], version: Mapping[str, Any]) -> dict[str, Any]:
    return {**version, "DefaultVersion": version["VersionNumber"] == template["DefaultVersionNumber"]}


def create_launch_template_version(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """CreateLaunchTemplateVersion."""
    template = account.template(parameters, region=region)
    data = dict(parameters["LaunchTemplateData"])
    if source := parameters.get("SourceVersion"):
        data = {**_version(template, source)["LaunchTemplateData"], **data}
    return {"LaunchTemplateVersion": _add_version(account, template, data, parameters.get("VersionDescription"))}


def modify_launch_template(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """ModifyLaunchTemplate: sets the default version."""
    template = account.template(parameters, region=region)
    template["DefaultVersionNumber"] = _version(template, parameters.get("DefaultVersion"))["VersionNumber"]
    return {"LaunchTemplate": _shown(template)}


def describe_launch_templates(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeLaunchTemplates."""
    ids, names = parameters.get("LaunchTemplateIds"), parameters.get("LaunchTemplateNames")
    if ids or names:
        found = [account.template({"LaunchTemplateId": wanted}, region=region) for wanted in ids or ()]
        found += [account.template({"LaunchTemplateName": wanted}, region=region) for wanted in names or ()]
    else:
        found = [template for template in account.templates.values() if template["Region"] == region]
    readers = {"launch-template-name": lambda template: str(template["LaunchTemplateName"])}
    chosen = select(
        found, parameters.get("Filters"), readers=readers, tags=lambda template: read_tags(template["Tags"])
    )
    shown, token = page(chosen, parameters)
    return {"LaunchTemplates": [_shown(template) for template in shown], "NextToken": token}


def describe_launch_template_versions(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeLaunchTemplateVersions."""
    template = account.template(parameters, region=region)
    wanted = parameters.get("Versions")
    versions = [_version(template, name) for name in wanted] if wanted else list(template["Versions"].values())
    shown, token = page([_with_default(template, version) for version in versions], parameters)
    return {"LaunchTemplateVersions": shown, "NextToken": token}


def delete_launch_template(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DeleteLaunchTemplate."""
    template = account.template(parameters, region=region)
    del account.templates[template["LaunchTemplateId"]]
    return {"LaunchTemplate": _shown(template)}


def delete_launch_template_versions(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DeleteLaunchTemplateVersions: of the default version it says that it cannot, of the others that it did."""
    template = account.template(parameters, region=region)
    done, failed = [], []
    for text in parameters["Versions"]:
        number = int(text)
        names = {key: template[key] for key in ("LaunchTemplateId", "LaunchTemplateName")}
        if number in template["Versions"] and number != template["DefaultVersionNumber"]:
            del template["Versions"][number]
            done.append({**names, "VersionNumber": number})
        else:
            code = "launchTemplateVersionDoesNotExist" if number not in template["Versions"] else "unexpectedError"
            failed.append({**names, "VersionNumber": number, "ResponseError": {"Code": code, "Message": code}})
    return {
        "SuccessfullyDeletedLaunchTemplateVersions": done,
        "UnsuccessfullyDeletedLaunchTemplateVersions": failed,
    }


def _version(template: Mapping[str, Any], wanted: str | None) -> dict[str, Any]:
    if wanted in {None, "", "$Default"}:
        number = template["DefaultVersionNumber"]
    elif wanted == "$Latest":
        number = template["LatestVersionNumber"]
    else:
        number = int(str(wanted)) if str(wanted).isdecimal() else -1
    if number not in template["Versions"]:
        raise AwsError(
            "InvalidLaunchTemplateId.VersionNotFound",
            f"Could not find the specified version {wanted} for the launch template with ID "
            f"{template['LaunchTemplateId']}.",
        )
    return dict(template["Versions"][number])


def with_template(account: Account, parameters: Mapping[str, Any], *, region: str) -> dict[str, Any]:
    """Parameters of a launch over those of its launch template. Tags of both are joined, key by key.

    Raises:
        AwsError: There is no such template or version.
    """
    reference = parameters.get("LaunchTemplate")
    if not reference:
        return dict(parameters)
    template = account.template(reference, region=region)
    version = _version(template, reference.get("Version"))
    data = dict(version["LaunchTemplateData"])
    own = {key: value for key, value in parameters.items() if key != "LaunchTemplate"}
    tags = _joined_tags(data.get("TagSpecifications") or (), own.get("TagSpecifications") or ())
    merged = {**data, **own, "TagSpecifications": tags}
    resolved = {
        "aws:ec2launchtemplate:id": template["LaunchTemplateId"],
        "aws:ec2launchtemplate:version": str(version["VersionNumber"]),
    }
    merged["TagSpecifications"] = _joined_tags(tags, [{"ResourceType": "instance", "Tags": shown_tags(resolved)}])
    return merged


def _joined_tags(*groups: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - lists of tag specifications
    joined: dict[str, dict[str, str]] = {}
    for specifications in groups:
        for specification in specifications:
            joined.setdefault(specification["ResourceType"], {}).update(read_tags(specification.get("Tags")))
    return [{"ResourceType": kind, "Tags": shown_tags(tags)} for kind, tags in joined.items()]
