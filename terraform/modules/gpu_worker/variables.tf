variable "name" {
  description = "Prefix of all names."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{1,30}$", var.name))
    error_message = "The name must be 2 to 31 lower-case letters, digits or hyphens."
  }
}

variable "bucket_arn" {
  description = "ARN of the artefact bucket: the only data that workers may read and write."
  type        = string
}

variable "image_id" {
  description = "AMI of the worker, with the driver and the worker wheel."
  type        = string

  validation {
    condition     = can(regex("^ami-[0-9a-f]+$", var.image_id))
    error_message = "The image must be an AMI id such as ami-0123456789abcdef0."
  }
}

variable "instance_types" {
  description = "Default instance type of each launch template; the plan overrides it at launch."
  type = object({
    spot      = optional(string, "g6.xlarge")
    on_demand = optional(string, "g6.xlarge")
  })
  default = {}
}

variable "max_lifetime_minutes" {
  description = "The machine shuts itself down after this many minutes, and shutting down terminates it."
  type        = number
  default     = 720

  validation {
    condition     = var.max_lifetime_minutes >= 10 && var.max_lifetime_minutes <= 10080
    error_message = "Choose between 10 minutes and 7 days."
  }
}

variable "root_volume_gb" {
  description = "Size of the root volume in GiB; it is deleted with the machine."
  type        = number
  default     = 100
}
