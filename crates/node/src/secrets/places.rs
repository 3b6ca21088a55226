//! Places in an inbox as others are shown them: whoever sees two of them must not learn how much came in between.
//!
//! A place is a number of 58 bits, and so is what stands for it: a permutation (a Feistel network) under the master key and under
//! what the place belongs to, so that nobody finds out by places of his own what others' mean. With another master key, what was
//! shown before means nothing.

use super::{MasterKey, mac};
use chorus_protocol::ids::DeliveryId;

/// The bits of each half.
const HALF: u32 = 29;
const MASK: i64 = (1 << HALF) - 1;
const ROUNDS: [u8; 4] = [0, 1, 2, 3];

impl MasterKey {
    /// Returns the opaque number for a position.
    pub fn hide_place(&self, of: &[u8], place: i64) -> i64 {
        let (mut left, mut right) = (place >> HALF & MASK, place & MASK);
        for round in ROUNDS {
            (left, right) = (right, left ^ self.mix(of, round, right));
        }
        left << HALF | right
    }

    /// The place that something stands for.
    pub fn reveal_place(&self, of: &[u8], hidden: i64) -> i64 {
        let (mut left, mut right) = (hidden >> HALF & MASK, hidden & MASK);
        for round in ROUNDS.into_iter().rev() {
            (left, right) = (right ^ self.mix(of, round, left), left);
        }
        left << HALF | right
    }

    fn mix(&self, of: &[u8], round: u8, half: i64) -> i64 {
        let mac = mac(&self.0, &[b"place\0", of, &[round], &half.to_be_bytes()]);
        i64::from(u32::from_be_bytes([mac[0], mac[1], mac[2], mac[3]])) & MASK
    }

    /// The name of a delivery, as it is shown.
    pub fn delivery_name(&self, id: DeliveryId) -> String {
        DeliveryId { seq: self.hide_place(id.agent.as_bytes(), id.seq), ..id }.to_string()
    }

    /// The delivery of such a name.
    pub fn named_delivery(&self, name: &str) -> Option<DeliveryId> {
        let shown = DeliveryId::parse(name)?;
        Some(DeliveryId { seq: self.reveal_place(shown.agent.as_bytes(), shown.seq), ..shown })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::ids::AgentId;
    use uuid::Uuid;

    #[test]
    fn places_are_found_again_and_tell_nothing_of_their_order() {
        let (key, other) = (MasterKey::new([7; 32]), MasterKey::new([8; 32]));
        let (of, another) = ([1; 16], [2; 16]);
        let mut shown = vec![];
        for place in (0..1000).chain([MASK, MASK + 1, (1 << 58) - 1]) {
            let hidden = key.hide_place(&of, place);
            assert_eq!(key.reveal_place(&of, hidden), place);
            assert!((0..1 << 58).contains(&hidden), "{hidden}");
            assert_ne!(hidden, key.hide_place(&another, place), "nobody learns it by his own");
            assert_ne!(hidden, other.hide_place(&of, place));
            shown.push(hidden);
        }
        let rising = shown.windows(2).filter(|two| two[0] < two[1]).count();
        assert!((300..700).contains(&rising), "{rising}");
    }

    #[test]
    fn a_delivery_is_found_by_its_name() {
        let key = MasterKey::new([7; 32]);
        let id = DeliveryId { agent: AgentId(Uuid::from_u128(9)), seq: 42 };
        let name = key.delivery_name(id);
        assert!(!name.ends_with("_42"), "{name}");
        assert_eq!(key.named_delivery(&name), Some(id));
        assert_eq!(key.named_delivery("dlv_x"), None);
    }
}
