//! The table in words: a template, and calls of the command line.

use std::fmt::Write as _;

use super::keys::{index_parts, key_parts, typed_parts};
use crate::{Attribute, layout::Layout};

/// For people to review and keep: plain YAML.
pub(super) fn template(layout: &Layout) -> String {
    let mut out = String::new();
    let mut line = |text: &str| {
        let _infallible = writeln!(out, "{text}");
    };
    line("# CloudFormation");
    line("Resources:");
    line("  IdempotencyTable:");
    line("    Type: AWS::DynamoDB::Table");
    line("    DeletionPolicy: Retain");
    line("    Properties:");
    line(&format!("      TableName: {}", quoted(&layout.table)));
    line("      BillingMode: PAY_PER_REQUEST");
    line("      AttributeDefinitions:");
    for (name, scalar) in typed_parts(layout) {
        let name = quoted(name);
        line(&format!("        - {{ AttributeName: {name}, AttributeType: {} }}", scalar.as_str()));
    }
    line("      KeySchema:");
    for (name, role) in key_parts(layout) {
        let name = quoted(name);
        line(&format!("        - {{ AttributeName: {name}, KeyType: {} }}", role.as_str()));
    }
    if let Some(index) = &layout.index {
        line("      GlobalSecondaryIndexes:");
        line(&format!("        - IndexName: {}", quoted(index)));
        line("          KeySchema:");
        for (name, role, _) in index_parts(layout) {
            let name = quoted(name);
            line(&format!("            - {{ AttributeName: {name}, KeyType: {} }}", role.as_str()));
        }
        line("          Projection: { ProjectionType: KEYS_ONLY }");
    }
    line("      TimeToLiveSpecification:");
    line(&format!("        AttributeName: {}", quoted(layout.name(Attribute::DeleteAfter))));
    line("        Enabled: true");
    out
}

pub(super) fn command_line(layout: &Layout) -> String {
    let mut out = String::from("# or with the AWS command line\naws dynamodb create-table \\\n");
    let table = word(&layout.table);
    let mut line = |text: String| {
        let _infallible = writeln!(out, "  {text} \\");
    };
    line(format!("--table-name {table}"));
    line("--billing-mode PAY_PER_REQUEST".to_owned());
    let pairs = |parts: Vec<(&str, String)>, second: &str| {
        let pair = |(name, what)| word(&format!("AttributeName={name},{second}={what}"));
        parts.into_iter().map(pair).collect::<Vec<_>>().join(" ")
    };
    let typed = typed_parts(layout);
    let typed = typed.into_iter().map(|(name, scalar)| (name, scalar.as_str().to_owned()));
    line(format!("--attribute-definitions {}", pairs(typed.collect(), "AttributeType")));
    let keys = key_parts(layout).into_iter().map(|(name, role)| (name, role.as_str().to_owned()));
    let keys = pairs(keys.collect(), "KeyType");
    match &layout.index {
        None => {
            let _infallible = writeln!(out, "  --key-schema {keys}");
        }
        Some(index) => {
            line(format!("--key-schema {keys}"));
            let schema: Vec<_> = index_parts(layout)
                .iter()
                .map(|(name, role, _)| {
                    format!("{{AttributeName={name},KeyType={}}}", role.as_str())
                })
                .collect();
            let index = format!(
                "IndexName={index},KeySchema=[{}],Projection={{ProjectionType=KEYS_ONLY}}",
                schema.join(",")
            );
            let _infallible = writeln!(out, "  --global-secondary-indexes {}", word(&index));
        }
    }
    let _infallible = writeln!(out, "aws dynamodb wait table-exists --table-name {table}");
    let _infallible = writeln!(
        out,
        "aws dynamodb update-time-to-live --table-name {table} \\\n  --time-to-live-specification {}",
        word(&format!("Enabled=true,AttributeName={}", layout.name(Attribute::DeleteAfter)))
    );
    out
}

/// A YAML scalar.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A word for a shell.
fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
