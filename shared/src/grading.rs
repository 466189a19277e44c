//! Resource models: nodes sorted into grades by what they have free, so that a cluster's room fits into a few numbers.
//!
//! The agent counts its nodes by grade, the hub reads the counts: both must mean the same. Amounts of CPU are thousandths,
//! all others whole units, both rounded up (the reference's rule).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use thiserror::Error;

use crate::object::Quantity;

/// The amount of a resource as models and estimates count it: thousandths of CPU, whole units of everything else.
#[must_use]
pub fn amount(resource: &str, quantity: Quantity) -> i64 {
    if resource == "cpu" {
        quantity.millis_ceil()
    } else {
        quantity.units_ceil()
    }
}

/// One grade as `spec.resourceModels` of a Cluster has it: what its nodes have at least.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grade {
    /// Number of the grade.
    pub grade: i64,
    /// Resource and lower bound, in the order written.
    pub least: Vec<(String, Quantity)>,
}

/// Why grades cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GradingError {
    /// There are none.
    #[error("there are no resource models")]
    Empty,
    /// Every grade must bound the same resources.
    #[error("grade {0} does not bound the same resources as the first one")]
    Uneven(i64),
}

/// Grades, ready for counting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grading {
    resources: Vec<String>,
    /// Lower bounds by resource, one for each grade, ascending.
    bounds: Vec<Vec<i64>>,
    grades: Vec<i64>,
}

/// Nodes of one grade.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many there are.
    pub count: u64,
    /// How many of each size, by the amounts of the modelled resources.
    pub sizes: BTreeMap<Vec<i64>, u64>,
}

impl Grading {
    /// Prepares grades, given in ascending order.
    ///
    /// # Errors
    /// There are none, or they do not bound the same resources.
    pub fn new(grades: &[Grade]) -> Result<Self, GradingError> {
        let first = grades.first().ok_or(GradingError::Empty)?;
        let resources: Vec<String> = first.least.iter().map(|(name, _)| name.clone()).collect();
        let mut bounds = vec![Vec::with_capacity(grades.len()); resources.len()];
        for grade in grades {
            if grade.least.len() != resources.len() {
                return Err(GradingError::Uneven(grade.grade));
            }
            for (resource, bounds) in resources.iter().zip(&mut bounds) {
                let (_, least) = grade
                    .least
                    .iter()
                    .find(|(name, _)| name == resource)
                    .ok_or(GradingError::Uneven(grade.grade))?;
                bounds.push(amount(resource, *least));
            }
        }
        Ok(Self {
            resources,
            bounds,
            grades: grades.iter().map(|grade| grade.grade).collect(),
        })
    }

    /// Numbers of the grades, in order.
    #[must_use]
    pub fn grades(&self) -> &[i64] {
        &self.grades
    }

    /// Amounts of the modelled resources; what is not there counts as nothing, what is not modelled is left out.
    #[must_use]
    pub fn size(&self, free: &BTreeMap<String, Quantity>) -> Vec<i64> {
        let of = |resource: &String| {
            free.get(resource)
                .map_or(0, |quantity| amount(resource, *quantity))
        };
        self.resources.iter().map(of).collect()
    }

    /// Position of the grade of a node of this size: the lowest, over its resources, of the last grade whose bound is not
    /// above the amount. `None`: it is below every grade.
    #[must_use]
    pub fn grade_of(&self, size: &[i64]) -> Option<usize> {
        let by_resource = size
            .iter()
            .zip(&self.bounds)
            .map(|(amount, bounds)| last_not_above(bounds, *amount));
        by_resource.min().unwrap_or(None)
    }

    /// Counts nodes, given by what they have free and how many such there are, into the grades. Those below every grade
    /// are not counted.
    #[must_use]
    pub fn count<'n>(
        &self,
        nodes: impl IntoIterator<Item = (&'n BTreeMap<String, Quantity>, u64)>,
    ) -> Vec<Tally> {
        let mut tallies = vec![Tally::default(); self.grades.len()];
        for (free, number) in nodes {
            let size = self.size(free);
            let tally = self.grade_of(&size).and_then(|at| tallies.get_mut(at));
            if let Some(tally) = tally {
                tally.count += number;
                *tally.sizes.entry(size).or_default() += number;
            }
        }
        tallies
    }

    /// Compares nodes by the modelled resources, in the order in which the models name them.
    #[must_use]
    pub fn compare(&self, a: &BTreeMap<String, Quantity>, b: &BTreeMap<String, Quantity>) -> Ordering {
        self.size(a).cmp(&self.size(b))
    }
}

/// Index of the last bound that is not above the value; bounds ascend.
#[must_use]
pub fn last_not_above(bounds: &[i64], value: i64) -> Option<usize> {
    bounds.partition_point(|bound| *bound <= value).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantities(list: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
        list.iter()
            .map(|(name, text)| ((*name).to_owned(), text.parse().unwrap()))
            .collect()
    }

    fn grades(list: &[&[(&str, &str)]]) -> Vec<Grade> {
        list.iter()
            .zip(0..)
            .map(|(least, grade)| Grade {
                grade,
                least: least
                    .iter()
                    .map(|(name, text)| ((*name).to_owned(), text.parse().unwrap()))
                    .collect(),
            })
            .collect()
    }

    #[test]
    fn a_node_belongs_to_the_grade_of_its_scarcest_resource() {
        let grading = Grading::new(&grades(&[
            &[("cpu", "0"), ("memory", "0")],
            &[("cpu", "1"), ("memory", "4Gi")],
            &[("cpu", "2"), ("memory", "16Gi")],
        ]))
        .unwrap();
        for (node, grade) in [
            (quantities(&[("cpu", "8"), ("memory", "5Gi")]), 1),
            (quantities(&[("cpu", "2"), ("memory", "16Gi")]), 2),
            (quantities(&[("cpu", "1999m"), ("memory", "64Gi")]), 1),
            (quantities(&[("memory", "64Gi")]), 0),
        ] {
            assert_eq!(grading.grade_of(&grading.size(&node)), Some(grade), "{node:?}");
        }
        let tallies = grading.count([
            (&quantities(&[("cpu", "3"), ("memory", "20Gi")]), 2),
            (&quantities(&[("cpu", "3000m"), ("memory", "20480Mi")]), 3),
        ]);
        assert_eq!((tallies[2].count, tallies[2].sizes.len()), (5, 1));
    }

    #[test]
    fn grades_must_bound_the_same_resources() {
        assert_eq!(Grading::new(&[]), Err(GradingError::Empty));
        let uneven = grades(&[&[("cpu", "0")], &[("memory", "1")]]);
        assert_eq!(Grading::new(&uneven), Err(GradingError::Uneven(1)));
    }

    #[test]
    fn below_every_grade_is_not_counted() {
        let grading = Grading::new(&grades(&[&[("cpu", "1")]])).unwrap();
        let node = quantities(&[("cpu", "500m")]);
        assert_eq!(grading.count([(&node, 1)])[0].count, 0);
    }
}
