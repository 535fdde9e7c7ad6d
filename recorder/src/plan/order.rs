//! The order of units: learned on the first pass, verified on each later one.

/// How a request relates to the learned order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Nothing is learned yet, or this pass has already left the order.
    Unplanned,
    /// As learned.
    Expected,
    /// The first request of this pass that is not as learned.
    Mismatch,
}

/// Learns and follows the order of units.
#[derive(Clone, Debug, Default)]
pub struct PassOrder {
    learned: Vec<usize>,
    current: Vec<usize>,
    following: bool,
    passes: u64,
    mismatches: u64,
}

impl PassOrder {
    /// Notes that a unit was asked for.
    pub fn arrive(&mut self, unit: usize) -> Arrival {
        let expected = self.learned.get(self.current.len()).copied();
        self.current.push(unit);
        if !self.following {
            return Arrival::Unplanned;
        }
        if expected == Some(unit) {
            return Arrival::Expected;
        }
        self.following = false;
        self.mismatches += 1;
        Arrival::Mismatch
    }

    /// Ends a pass. The order just seen is followed next; a pass without units teaches nothing.
    pub fn end_pass(&mut self) {
        if self.current.is_empty() {
            return;
        }
        self.learned = std::mem::take(&mut self.current);
        self.following = true;
        self.passes += 1;
    }

    /// The units expected next, wrapping into the next pass; at most one pass long, empty while nothing is followed.
    pub fn ahead(&self) -> impl Iterator<Item = usize> {
        let length = if self.following { self.learned.len() } else { 0 };
        let from = self.current.len();
        (from..from + length).filter_map(move |position| self.learned.get(position % length).copied())
    }

    /// Passes that taught an order.
    pub fn passes(&self) -> u64 {
        self.passes
    }

    /// Passes that left the learned order.
    pub fn mismatches(&self) -> u64 {
        self.mismatches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(order: &mut PassOrder, units: &[usize]) -> Vec<Arrival> {
        let arrivals = units.iter().map(|unit| order.arrive(*unit)).collect();
        order.end_pass();
        arrivals
    }

    #[test]
    fn the_second_pass_is_expected_and_wraps() {
        let mut order = PassOrder::default();
        assert!(pass(&mut order, &[3, 1, 2]).iter().all(|a| *a == Arrival::Unplanned));
        order.arrive(3);
        assert_eq!(order.ahead().collect::<Vec<_>>(), [1, 2, 3]);
        order.arrive(1);
        order.arrive(2);
        assert_eq!(order.ahead().collect::<Vec<_>>(), [3, 1, 2], "into the next pass");
        assert_eq!(order.passes(), 1);
    }

    #[test]
    fn a_mismatch_is_counted_once_a_pass_and_the_new_order_is_learned() {
        let mut order = PassOrder::default();
        pass(&mut order, &[1, 2, 3]);
        assert_eq!(pass(&mut order, &[1, 3, 2]), [Arrival::Expected, Arrival::Mismatch, Arrival::Unplanned]);
        assert_eq!(order.mismatches(), 1);
        assert!(pass(&mut order, &[1, 3, 2]).iter().all(|a| *a == Arrival::Expected));
        order.arrive(9);
        assert_eq!(order.ahead().count(), 0, "nothing is expected after a mismatch");
    }
}
