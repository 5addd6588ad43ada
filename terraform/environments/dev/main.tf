module "artifacts" {
  source = "../../modules/artifact_bucket"

  name = var.name
}

module "worker" {
  source = "../../modules/gpu_worker"

  name                 = var.name
  bucket_arn           = module.artifacts.arn
  image_id             = var.image_id
  max_lifetime_minutes = 240
}
