//! Sets that come in files, for a site without any link, and the receipt that goes back.

use std::path::Path;

use agent::ledger::{Ledger, facts};
use agent_core::holdings::Content;
use agent_core::intake::Held;
use anyhow::{Context, Result, ensure};
use ring::rand::SystemRandom;
use serde_json::json;
use shared::bundle::Descriptor;
use shared::ids::{ClusterName, FleetId, Incarnation, KeyNumber};
use shared::keys::{HubKeys, KeyStatement, SigningKey};
use shared::wire::{ApplyState, Export, SealingKey, decode_carried, encode_export};

use super::bench::*;

const KEY: SealingKey = SealingKey([9; 32]);

fn file(held: &Held, contents: &[Content], keys: &HubKeys, to: &Path) -> Result<Vec<u8>> {
    let export = Export {
        head: held.head.clone(),
        statements: keys.ring().statements().cloned().collect(),
        set: held.set.clone(),
        contents: contents
            .iter()
            .map(|c| (c.descriptor.clone(), c.bytes.clone()))
            .collect(),
    };
    let bytes = encode_export(&export, &KEY, [1; 12])?;
    std::fs::write(to, &bytes)?;
    Ok(bytes)
}

/// Red if `carry::import` committed before the intake had verified, or answered for it.
pub(super) fn a_set_from_a_file_is_taken_as_from_the_wire(bench: &mut Bench) -> Result<()> {
    bench.run(&[wanted(namespace("shop")), wanted(config("by-hand", "1"))], &[])?;
    bench.see("configmap", "shop", "by-hand", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })?;
    let folder = bench.data.parent().context("a folder")?.to_owned();
    let (good, other, receipt) = (folder.join("set"), folder.join("other"), folder.join("receipt"));
    let path = |p: &Path| p.display().to_string();
    let (old, old_contents) =
        bench.next_set(&[wanted(namespace("shop")), wanted(config("by-hand", "2"))], &[])?;
    let wants = [wanted(namespace("shop")), wanted(config("by-hand", "3"))];
    let (new, contents) = bench.next_set(&wants, &[])?;
    let bytes = file(&new, &contents, &bench.keys, &good)?;
    let refused = bench.agent_refuses(&["import", &path(&good)])?;
    ensure!(
        refused.contains("stop it first"),
        "beside a running agent: {refused}"
    );
    bench.stop()?;
    let refused = bench.agent_refuses(&["import", &path(&good)])?;
    ensure!(refused.contains("no key for files yet"), "{refused}");
    facts::put_sealing(&Ledger::open(&bench.data)?, &KEY)?;

    // Changed on its way; made by another fleet under the right key; another cluster's; without a content.
    let mut changed = bytes.clone();
    let last = changed.len() - 1;
    changed[last] ^= 1;
    std::fs::write(&other, &changed)?;
    let refused = bench.agent_refuses(&["import", &path(&other)])?;
    ensure!(refused.contains("BadSignature"), "{refused}");
    let random = SystemRandom::new();
    let ((root, _), (signer, _)) = (SigningKey::generate(&random)?, SigningKey::generate(&random)?);
    let statement = KeyStatement::issue(&root, FleetId([7; 16]), KeyNumber(1), signer.public());
    let forger = HubKeys::new(root.public(), statement, signer)?;
    let forged = Held {
        head: new.head.head.clone().sign(&forger),
        set: new.set.clone(),
    };
    let forged_contents: Vec<Content> = contents
        .iter()
        .map(|c| {
            let descriptor = Descriptor::sign(&c.bytes, &forger)?;
            Ok(Content {
                descriptor,
                bytes: c.bytes.clone(),
            })
        })
        .collect::<Result<_>>()?;
    // With our own statements, so that the forged head is what is looked at.
    file(&forged, &forged_contents, &bench.keys, &other)?;
    let refused = bench.agent_refuses(&["import", &path(&other)])?;
    ensure!(refused.contains("BadSignature"), "{refused}");
    let mut foreign = new.head.head.clone();
    foreign.cluster = ClusterName::new("till")?;
    let foreign = Held {
        head: foreign.sign(&bench.keys),
        set: new.set.clone(),
    };
    file(&foreign, &contents, &bench.keys, &other)?;
    let refused = bench.agent_refuses(&["import", &path(&other)])?;
    ensure!(refused.contains("ForeignCluster"), "{refused}");
    file(&new, &[], &bench.keys, &other)?;
    let refused = bench.agent_refuses(&["import", &path(&other)])?;
    ensure!(refused.contains("Malformed"), "{refused}");
    let status = bench.status()?;
    ensure!(
        status["sequence"] == bench.sequence - 2,
        "something was taken: {status}"
    );

    let said = bench.agent_says(&["import", &path(&good)])?;
    ensure!(said.contains("is accepted"), "{said}");
    // An older one, signed as well as can be.
    file(&old, &old_contents, &bench.keys, &other)?;
    let refused = bench.agent_refuses(&["import", &path(&other)])?;
    ensure!(refused.contains("StaleSequence"), "{refused}");
    bench.start(&[])?;
    bench.see("configmap", "shop", "by-hand", |o| {
        equal(&o["data"]["a"], &json!("3"))
    })?;
    bench.no_problem("ConfigMap shop/by-hand")?;

    // Beside the running agent.
    let carried = tests::real::wait::until("the receipt says that it is applied", SOON, || {
        bench
            .agent_says(&["export", &path(&receipt)])
            .map_err(|e| e.to_string())?;
        let bytes = std::fs::read(&receipt).map_err(|e| e.to_string())?;
        let shop = ClusterName::new("shop").map_err(|e| e.to_string())?;
        let carried = decode_carried(&bytes, &shop, Incarnation([3; 16]), &bench.identity())
            .map_err(|e| e.to_string())?;
        let applied = carried.objects.iter().all(|o| o.applied == ApplyState::Applied);
        if applied {
            Ok(carried)
        } else {
            Err(format!("{:?}", carried.objects))
        }
    })?;
    ensure!(
        carried.sequence == new.head.head.sequence && carried.objects.len() == 2,
        "{carried:?}"
    );
    Ok(())
}
