output "launch_template_ids" {
  description = "Launch template by purchase option."
  value       = { for purchase, template in aws_launch_template.worker : purchase => template.id }
}

output "role_arn" {
  description = "Role that workers run under."
  value       = aws_iam_role.worker.arn
}
