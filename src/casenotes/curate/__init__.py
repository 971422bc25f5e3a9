"""What people do with memories: keep, forget, explain, put right, audit, rebuild and erase them."""
