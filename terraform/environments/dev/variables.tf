variable "region" {
  description = "AWS region of the environment."
  type        = string
  default     = "eu-west-1"
}

variable "name" {
  description = "Prefix of all names."
  type        = string
  default     = "plimsoll-dev"
}

variable "image_id" {
  description = "AMI of the worker."
  type        = string
}
