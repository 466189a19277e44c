//! Bounds of the pure decisions of the API.

/// Operations in one JSON patch (Kubernetes has the same).
pub const MAX_JSON_PATCH_OPERATIONS: usize = 10_000;
/// Bytes that the copies of one JSON patch add to an object (Kubernetes has the same).
pub const MAX_PATCH_GROWTH: usize = 3 * 1024 * 1024;
/// Times that one JSON patch has the depth of the whole object measured.
pub const MAX_PATCH_DEPTH_LOOKS: usize = 64;
/// Arrays and objects within each other in one object. What is read back from JSON may have 127, here as in most clients,
/// and objects also stand within lists, events and reviews.
pub const MAX_OBJECT_DEPTH: usize = 120;
/// Members of one JSON object in a request body.
pub const MAX_MEMBERS: usize = 100_000;
/// Requirements in one selector.
pub const MAX_SELECTOR_REQUIREMENTS: usize = 256;
/// Bytes of all annotation keys and values of one object (Kubernetes has the same).
pub const MAX_ANNOTATION_BYTES: usize = 256 * 1024;
/// Bytes of all values of one Secret or ConfigMap (Kubernetes has the same).
pub const MAX_DATA_BYTES: usize = 1024 * 1024;
/// Depth of an encoded set of owned fields.
pub const MAX_FIELD_DEPTH: usize = 128;
/// Entries of `managedFields` of one object.
pub const MAX_MANAGED_FIELDS_ENTRIES: usize = 1_000;
/// Entries of managers that update (not apply) one object; the oldest are folded into one (Kubernetes has the same).
pub const MAX_UPDATE_MANAGERS: usize = 10;
/// Bytes of a manager's name (Kubernetes has the same).
pub const MAX_MANAGER_BYTES: usize = 128;
/// Messages within messages of a protobuf body.
pub const MAX_PROTOBUF_DEPTH: usize = 100;
/// Values of a protobuf body, messages included: what it becomes in memory is bounded, whatever its bytes are.
pub const MAX_PROTOBUF_VALUES: usize = 500_000;
/// Single permissions that one check against escalation takes apart; beyond, a rule must be covered whole.
pub const MAX_ESCALATION_RULES: usize = 100_000;
/// Bytes of a bearer token.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;
/// Longest life of a ServiceAccount token (seconds): one year.
pub const MAX_TOKEN_SECONDS: i64 = 365 * 86_400;
/// Bytes of one expression.
pub const MAX_CEL_EXPRESSION_BYTES: usize = 32 * 1024;
/// Words of one expression.
pub const MAX_CEL_TOKENS: usize = 8_000;
/// Brackets within brackets of one expression.
pub const MAX_CEL_BRACKETS: usize = 40;
/// How deep the operators, calls and brackets of one expression may nest (the reference compiler has the same).
pub const MAX_CEL_CHAIN: usize = 250;
/// Bytes of a text, or items of a list, that an expression makes.
pub const MAX_CEL_VALUE: usize = 1024 * 1024;
/// Steps of one evaluation (Kubernetes: `PerCallLimit`).
pub const MAX_CEL_CALL_COST: u64 = 1_000_000;
/// Steps of all rules for one object, or of one policy for one request (Kubernetes: `RuntimeCELCostBudget`).
pub const MAX_CEL_TOTAL_COST: u64 = 10_000_000;
/// Steps of all policies for one request.
pub const MAX_CEL_REQUEST_COST: u64 = 50_000_000;
/// Estimated cost of one rule of a schema and all its uses for one object (Kubernetes: `StaticEstimatedCostLimit`).
pub const MAX_CEL_ESTIMATE: u64 = 10_000_000;
/// Estimated cost of all rules of a schema (Kubernetes: `StaticEstimatedCRDCostLimit`).
pub const MAX_CEL_SCHEMA_ESTIMATE: u64 = 100_000_000;
/// Rules of one node of a schema; also validations, variables, mutations and audit annotations of one policy.
pub const MAX_CEL_RULES: usize = 100;
/// Match conditions of one policy (Kubernetes has the same).
pub const MAX_MATCH_CONDITIONS: usize = 64;
/// Bytes of a message that an expression makes (Kubernetes has the same).
pub const MAX_CEL_MESSAGE_BYTES: usize = 5 * 1024;
/// Admission policies, and bindings, of each kind.
pub const MAX_ADMISSION_POLICIES: usize = 1_000;
/// Parameters that one binding selects.
pub const MAX_POLICY_PARAMS: usize = 100;
