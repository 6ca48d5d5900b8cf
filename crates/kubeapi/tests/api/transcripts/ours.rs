//! Complete answers to requests with the sample objects of the `api` crate. This file runs against the embedded API and,
//! in `make kube`, against a real kube-apiserver; the recorded answers are the same.

use crate::exchange::MERGE_PATCH;
use crate::ours::{fixtures, place};
use crate::script::Script;
use crate::server::Server;
use serde_json::json;

#[tokio::test]
async fn requests_for_our_kinds_get_the_recorded_answers() {
    let server = Server::ours().await;
    let mut script = Script::new(&server);
    for (file, fixture) in fixtures() {
        let path = place(&server, &fixture).await;
        let name = file.trim_end_matches(".yaml");
        let mut object = fixture.clone();
        object["metadata"] = json!({"name": name, "labels": fixture["metadata"]["labels"]});
        script.post(&format!("{path}?fieldValidation=Strict"), &object).await;
        if fixture["status"].is_object() {
            let status = json!({"status": fixture["status"]});
            script.patch(&format!("{path}/{name}/status"), MERGE_PATCH, &status).await;
        }
        script.get(&format!("{path}/{name}")).await;
        script
            .get_as(
                &format!("{path}/{name}?includeObject=None"),
                "application/json;as=Table;v=v1;g=meta.k8s.io",
            )
            .await;
        // Each member of the spec in turn is replaced by an invalid value.
        for member in fixture["spec"].as_object().into_iter().flat_map(|spec| spec.keys()) {
            for wrong in [json!([{}]), json!({"typo": 1}), json!("?")] {
                let patch = json!({"spec": {member.as_str(): wrong}});
                let path = format!("{path}/{name}?dryRun=All");
                let mut answer = server.merge(&path, &patch).await;
                // If the server accepts the object, records only the warnings of the answer.
                answer.body = if answer.code == 200 { json!(answer.warnings) } else { answer.body };
                script.note(&format!("PATCH {name} {patch}"), &answer);
            }
        }
    }
    script.end("ours");
}
