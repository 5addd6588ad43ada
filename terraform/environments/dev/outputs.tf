output "store" {
  description = "Value of PLIMSOLL_STORE."
  value       = "s3://${module.artifacts.name}/plimsoll"
}

output "launch_template_ids" {
  description = "Launch template by purchase option."
  value       = module.worker.launch_template_ids
}

output "worker_role_arn" {
  description = "Role that workers run under."
  value       = module.worker.role_arn
}
