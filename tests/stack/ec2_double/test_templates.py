def test_versions_defaults_and_deletion(world):
    template = world.template(InstanceType="g5.xlarge")
    version = world.ec2.create_launch_template_version(
        LaunchTemplateId=template, SourceVersion="1", LaunchTemplateData={"InstanceType": "g6.xlarge"}
    )["LaunchTemplateVersion"]
    assert (version["VersionNumber"], version["DefaultVersion"]) == (2, False)
    assert version["LaunchTemplateData"]["MetadataOptions"]["HttpTokens"] == "required"

    def type_of(name):
        (found,) = world.ec2.describe_launch_template_versions(LaunchTemplateId=template, Versions=[name])[
            "LaunchTemplateVersions"
        ]
        return found["LaunchTemplateData"]["InstanceType"]

    assert (type_of("$Default"), type_of("$Latest"), type_of("2")) == ("g5.xlarge", "g6.xlarge", "g6.xlarge")
    world.ec2.modify_launch_template(LaunchTemplateId=template, DefaultVersion="2")
    assert type_of("$Default") == "g6.xlarge"
    answer = world.ec2.delete_launch_template_versions(LaunchTemplateId=template, Versions=["1", "2", "7"])
    assert [each["VersionNumber"] for each in answer["SuccessfullyDeletedLaunchTemplateVersions"]] == [1]
    assert [each["VersionNumber"] for each in answer["UnsuccessfullyDeletedLaunchTemplateVersions"]] == [2, 7]
    world.ec2.delete_launch_template(LaunchTemplateId=template)
    code = "InvalidLaunchTemplateId.NotFound"
    assert world.refusal(world.ec2.describe_launch_templates, LaunchTemplateIds=[template]) == (code, 400)


def test_templates_are_found_by_name_and_tag(world):
    world.ec2.create_launch_template(
        LaunchTemplateName="ours",
        LaunchTemplateData={"ImageId": "ami-12345678"},
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": [{"Key": "k", "Value": "v"}]}],
    )
    world.template("other")
    (by_name,) = world.ec2.describe_launch_templates(LaunchTemplateNames=["ours"])["LaunchTemplates"]
    filters = [{"Name": "tag:k", "Values": ["v"]}]
    (by_tag,) = world.ec2.describe_launch_templates(Filters=filters)["LaunchTemplates"]
    assert by_name["LaunchTemplateId"] == by_tag["LaunchTemplateId"]
    code = "InvalidLaunchTemplateName.NotFoundException"
    assert world.refusal(world.ec2.describe_launch_templates, LaunchTemplateNames=["none"]) == (code, 400)


def test_an_unknown_version_is_refused(world):
    template = world.template()
    asked = {"LaunchTemplateId": template, "Versions": ["9"]}
    code = "InvalidLaunchTemplateId.VersionNotFound"
    assert world.refusal(world.ec2.describe_launch_template_versions, **asked) == (code, 400)
