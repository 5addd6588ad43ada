output "name" {
  description = "Name of the bucket: PLIMSOLL_STORE is s3://<name>/plimsoll."
  value       = aws_s3_bucket.this.id
}

output "arn" {
  description = "ARN of the bucket."
  value       = aws_s3_bucket.this.arn
}
