variable "name" {
  description = "Prefix of the bucket name."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{1,30}$", var.name))
    error_message = "The name must be 2 to 31 lower-case letters, digits or hyphens."
  }
}

variable "quarantine_days" {
  description = "Days after which quarantined objects expire. Live prefixes never expire by age: only the storage lifecycle DAG knows what is still referenced."
  type        = number
  default     = 30

  validation {
    condition     = var.quarantine_days >= 7
    error_message = "Keep quarantined objects for at least 7 days."
  }
}

variable "noncurrent_days" {
  description = "Days after which overwritten or deleted versions expire."
  type        = number
  default     = 30

  validation {
    condition     = var.noncurrent_days >= 7
    error_message = "Keep old versions for at least 7 days."
  }
}
