//! The agent's own small objects in the member, by their path: a lease and Secrets.

use http::Method;
use serde_json::Value;

use super::api::Api;
use super::errors::ApiError;

impl Api {
    /// Reads an object by its path; none when it is not there.
    ///
    /// # Errors
    /// Any other answer.
    pub async fn find(&self, path: &str) -> Result<Option<Value>, ApiError> {
        match self.document(path).await {
            Ok(object) => Ok(Some(object)),
            Err(e) if e.is_object_absent() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Creates an object in the collection at `path`.
    ///
    /// # Errors
    /// Any answer but 201; a conflict when there is one of this name.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        self.write(Method::POST, path, object).await
    }

    /// Replaces exactly the version that `object` names.
    ///
    /// # Errors
    /// Any answer but 200; a conflict when it has another version now.
    pub async fn replace(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        self.write(Method::PUT, path, object).await
    }

    /// Deletes an object; one that is not there is deleted already.
    ///
    /// # Errors
    /// Any other answer.
    pub async fn remove(&self, path: &str) -> Result<(), ApiError> {
        match self.send(Method::DELETE, path, None, None).await {
            Err(e) if !e.is_object_absent() => Err(e),
            _ => Ok(()),
        }
    }

    async fn write(&self, method: Method, path: &str, object: &Value) -> Result<Value, ApiError> {
        let body = serde_json::to_vec(object).map_err(|e| ApiError::malformed(&e))?;
        let (_, answer) = self
            .send(method, path, Some("application/json"), Some(body))
            .await?;
        serde_json::from_slice(&answer).map_err(|e| ApiError::malformed(&e))
    }
}
