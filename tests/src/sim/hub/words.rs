//! What hub and agents say to each other, in the trace.

use shared::ids::Sequence;
use shared::wire::{Down, Up};

use super::Scene;

pub(super) fn trace_up(cluster: usize, up: &Up, scene: &mut Scene<'_>) {
    let now = scene.now;
    match up {
        Up::Hello(h) => scene.trace.note(
            now,
            format_args!(
                "{cluster} > hello {:?} held {:?}",
                h.boot,
                h.held.as_ref().map(|h| h.head.sequence)
            ),
        ),
        Up::Ack(a) => scene
            .trace
            .note(now, format_args!("{cluster} > ack {}", a.sequence)),
        Up::Want(w) => {
            scene.trace.mark(match w.what {
                shared::wire::What::Set(_) => "whole set wanted",
                shared::wire::What::Content(_) => "content wanted",
            });
            if w.offset > 0 {
                scene.trace.mark("content wanted from the middle");
            }
            scene
                .trace
                .note(now, format_args!("{cluster} > want {:?} {}", w.what, w.offset));
        }
        Up::Report(r) => {
            if !r.tombstones_done.is_empty() {
                scene.trace.mark("tombstone reported");
            }
            if r.strays.as_ref().is_some_and(|s| !s.is_empty()) {
                scene.trace.mark("stray reported");
            }
            scene.trace.note(
                now,
                format_args!("{cluster} > report {} of {}", r.report_seq, r.objects.len()),
            );
        }
        Up::Beat(b) => scene
            .trace
            .note(now, format_args!("{cluster} > beat {}", b.sequence)),
        Up::Refused(r) => scene.trace.note(
            now,
            format_args!("{cluster} > refused {} {}", r.sequence, r.reason),
        ),
        Up::Held(c) => scene
            .trace
            .note(now, format_args!("{cluster} > held {:?} {}", c.what, c.offset)),
        Up::Member(_) | Up::Room(_) | Up::Join(_) => {}
    }
}

pub(super) fn trace_down(cluster: usize, down: &Down, scene: &mut Scene<'_>) {
    let now = scene.now;
    match down {
        Down::Offer(o) => {
            scene.trace.mark(match (&o.delta, o.base) {
                (None, _) => "offer without delta",
                (Some(_), Sequence(0)) => "offer from the empty set",
                _ => "offer as delta",
            });
            if !o.inline.is_empty() {
                scene.trace.mark("content rides along");
            }
            scene.trace.note(
                now,
                format_args!(
                    "{cluster} < offer {} from {} with {}",
                    o.sequence,
                    o.base,
                    o.inline.len()
                ),
            );
        }
        Down::Welcome(w) => scene.trace.note(
            now,
            format_args!("{cluster} < welcome {} {}", w.session, w.behind),
        ),
        Down::Chunk(c) => scene.trace.note(
            now,
            format_args!("{cluster} < chunk {:?} {}/{}", c.what, c.offset, c.total),
        ),
        Down::Ask(a) => scene
            .trace
            .note(now, format_args!("{cluster} < ask {:?} {}", a.what, a.offset)),
        Down::ReportAck(a) => scene
            .trace
            .note(now, format_args!("{cluster} < report ack {}", a.report_seq)),
        Down::BeatAck(_)
        | Down::Joined(_)
        | Down::JoinRefused(_)
        | Down::Revoked(_)
        | Down::SealingKey(_) => {}
    }
}
