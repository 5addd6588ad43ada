locals {
  purchase = {
    spot      = var.instance_types.spot
    on-demand = var.instance_types.on_demand
  }
  # The first thing a machine does is to arm its own end; it needs nobody else for that.
  user_data = <<-EOT
    #!/bin/bash
    shutdown -h +${var.max_lifetime_minutes}
  EOT
}

resource "aws_launch_template" "worker" {
  for_each = local.purchase

  name_prefix                          = "${var.name}-${each.key}-"
  image_id                             = var.image_id
  instance_type                        = each.value
  instance_initiated_shutdown_behavior = "terminate"
  update_default_version               = true
  user_data                            = base64encode(local.user_data)

  iam_instance_profile {
    arn = aws_iam_instance_profile.worker.arn
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 2
    instance_metadata_tags      = "enabled"
  }

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      volume_size           = var.root_volume_gb
      volume_type           = "gp3"
      encrypted             = true
      delete_on_termination = true
    }
  }

  dynamic "instance_market_options" {
    for_each = each.key == "spot" ? [1] : []

    content {
      market_type = "spot"

      spot_options {
        spot_instance_type             = "one-time"
        instance_interruption_behavior = "terminate"
      }
    }
  }

  dynamic "tag_specifications" {
    for_each = toset(["instance", "volume"])

    content {
      resource_type = tag_specifications.value
      tags = {
        "plimsoll:name"     = var.name
        "plimsoll:purchase" = each.key
      }
    }
  }
}
