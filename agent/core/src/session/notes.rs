//! What is told of the member besides objects: how its API stands, and where there is room. Nobody acknowledges
//! these; they are told after each welcome, when they change, and once more with the beat that follows.

use shared::wire::{MemberApi, MemberNote, Room, Up};

use super::Session;

/// How often a new state is told: at once, and again with the next beat in case the first was lost.
const TELLINGS: u8 = 2;

/// The states and how often each is still to be told.
#[derive(Debug, Default)]
pub(super) struct Notes {
    member: Option<MemberNote>,
    member_left: u8,
    room: Option<Room>,
    room_left: u8,
    /// A first telling waits for the next moment, not for the next beat.
    at_once: bool,
}

impl Session {
    /// How the member's API stands now.
    pub fn handle_note(&mut self, note: MemberNote) {
        if self.notes.member.as_ref() != Some(&note) {
            self.notes.member = Some(note);
            self.notes.member_left = TELLINGS;
            self.notes.at_once = true;
        }
    }

    /// Where there is room now; the caller passes material changes only.
    pub fn handle_room(&mut self, room: Room) {
        if self.notes.room.as_ref() != Some(&room) {
            self.notes.room = Some(room);
            self.notes.room_left = TELLINGS;
            self.notes.at_once = true;
        }
    }

    /// The hub may know nothing of it any more: everything is told again.
    pub(super) fn renew_notes(&mut self) {
        self.notes.member_left = TELLINGS;
        self.notes.room_left = TELLINGS;
        self.notes.at_once = true;
    }

    /// Whether a note waits to be told now.
    pub(super) fn owes_notes(&self) -> bool {
        self.notes.at_once && self.is_open()
    }

    /// Tells what is still to be told; with a beat, or at once after a change.
    pub(super) fn tell_notes(&mut self) {
        self.notes.at_once = false;
        let sick = |n: &MemberNote| n.api != MemberApi::Healthy;
        if let Some(note) = self.notes.member.clone()
            && (self.notes.member_left > 0 || sick(&note))
        {
            self.notes.member_left = self.notes.member_left.saturating_sub(1);
            self.send(&Up::Member(note));
        }
        if self.notes.room_left > 0
            && let Some(room) = self.notes.room.clone()
        {
            self.notes.room_left -= 1;
            self.send(&Up::Room(room));
        }
    }
}
