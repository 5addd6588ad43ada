"""The actions of EC2 that the double has: its own, and those it leaves to moto."""

from __future__ import annotations

from stack.ec2_double import (
    fleets,
    instance_types,
    instances,
    interfaces,
    network,
    prices,
    resources,
    spot_requests,
    tags,
    templates,
)
from stack.ec2_double.tokens import Handler

OWN: dict[str, Handler] = {
    "AllocateAddress": resources.allocate_address,
    "AssociateAddress": interfaces.associate_address,
    "CancelSpotInstanceRequests": spot_requests.cancel_spot_instance_requests,
    "CreateFleet": fleets.create_fleet,
    "CreateLaunchTemplate": templates.create_launch_template,
    "CreateLaunchTemplateVersion": templates.create_launch_template_version,
    "CreateNetworkInterface": interfaces.create_network_interface,
    "CreateSnapshot": resources.create_snapshot,
    "CreateTags": tags.create_tags,
    "CreateVolume": resources.create_volume,
    "DeleteFleets": fleets.delete_fleets,
    "DeleteLaunchTemplate": templates.delete_launch_template,
    "DeleteLaunchTemplateVersions": templates.delete_launch_template_versions,
    "DeleteNetworkInterface": interfaces.delete_network_interface,
    "DeleteSnapshot": resources.delete_snapshot,
    "DeleteTags": tags.delete_tags,
    "DeleteVolume": resources.delete_volume,
    "DescribeAddresses": resources.describe_addresses,
    "DescribeAvailabilityZones": network.describe_availability_zones,
    "DescribeFleets": fleets.describe_fleets,
    "DescribeImages": interfaces.describe_images,
    "DescribeInstanceStatus": instances.describe_instance_status,
    "DescribeInstanceTypeOfferings": prices.describe_instance_type_offerings,
    "DescribeInstanceTypes": instance_types.describe_instance_types,
    "DescribeInstances": instances.describe_instances,
    "DescribeLaunchTemplateVersions": templates.describe_launch_template_versions,
    "DescribeLaunchTemplates": templates.describe_launch_templates,
    "DescribeNetworkInterfaces": interfaces.describe_network_interfaces,
    "DescribeSecurityGroups": network.describe_security_groups,
    "DescribeSnapshots": resources.describe_snapshots,
    "DescribeSpotInstanceRequests": spot_requests.describe_spot_instance_requests,
    "DescribeSpotPriceHistory": prices.describe_spot_price_history,
    "DescribeSubnets": network.describe_subnets,
    "DescribeTags": tags.describe_tags,
    "DescribeVolumes": resources.describe_volumes,
    "DescribeVpcs": network.describe_vpcs,
    "DisassociateAddress": interfaces.disassociate_address,
    "GetSpotPlacementScores": prices.get_spot_placement_scores,
    "ModifyLaunchTemplate": templates.modify_launch_template,
    "ReleaseAddress": resources.release_address,
    "RunInstances": instances.run_instances,
    "StopInstances": instances.stop_instances,
    "TerminateInstances": instances.terminate_instances,
}
# What moto answers by itself and what does not touch anything of the above.
LEFT_TO_MOTO = frozenset(
    {
        "CreateKeyPair",
        "DeleteKeyPair",
        "DescribeAccountAttributes",
        "DescribeKeyPairs",
        "DescribeRegions",
        "ImportKeyPair",
    }
)
