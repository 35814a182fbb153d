from .details import AliasDetail as AliasDetail, AssumedLayout as AssumedLayout, AxisView as AxisView, BufferRow as BufferRow
from .details import BufferView as BufferView, CopyView as CopyView, Detail as Detail, KernelDetail as KernelDetail
from .details import KernelText as KernelText, LayoutView as LayoutView, MemoryBar as MemoryBar, MemorySection as MemorySection
from .details import MemoryView as MemoryView, NeighbourView as NeighbourView, PairDetail as PairDetail, PointsToView as PointsToView
from .details import PathStep as PathStep, PointsToArrow as PointsToArrow, PointsToBand as PointsToBand, PointsToBox as PointsToBox
from .details import PointsToCone as PointsToCone, PointsToLine as PointsToLine, VerdictView as VerdictView
from .explorer import VIEW_VERSION as VIEW_VERSION, BreakView as BreakView, DecidedView as DecidedView
from .explorer import BranchDiff as BranchDiff, BranchesView as BranchesView, BranchView as BranchView
from .explorer import CardJudgement as CardJudgement, CardOption as CardOption, CardRemark as CardRemark, CardView as CardView
from .explorer import ChangedLine as ChangedLine, EditTrouble as EditTrouble, ExplorerView as ExplorerView, PaneName as PaneName
from .explorer import ComparedKind as ComparedKind, ComparedView as ComparedView, PaintView as PaintView
from .explorer import PairKind as PairKind, PairMark as PairMark
from .explorer import OwnMemoryView as OwnMemoryView, ProgramStop as ProgramStop, StoredBranches as StoredBranches
from .explorer import StoryStep as StoryStep, StoryView as StoryView
from .profile import HeatLine as HeatLine, HelpView as HelpView, IcicleBox as IcicleBox, Measured as Measured, ProfileView as ProfileView
from .profile import RoofMark as RoofMark, TimedGroup as TimedGroup, TimedNode as TimedNode, TimedSpan as TimedSpan, TimedWay as TimedWay
from .profile import TimingView as TimingView
from .program import Box as Box, BoxKind as BoxKind, Column as Column, Count as Count, EarlierAlias as EarlierAlias
from .program import EarlierLine as EarlierLine, Edge as Edge, Found as Found, GoneLine as GoneLine, GraphView as GraphView
from .program import Level as Level, MadeGroup as MadeGroup, PassView as PassView, Place as Place, StepView as StepView
from .program import TableView as TableView, TextView as TextView, TimelineView as TimelineView
from .same import BesideLine as BesideLine, BesideView as BesideView, ClassView as ClassView, CoarserStep as CoarserStep
from .same import CostView as CostView, HoleLine as HoleLine, LadderStep as LadderStep, PlaceView as PlaceView, RepeatView as RepeatView
from .same import SameCard as SameCard, SameClass as SameClass, SameStep as SameStep, SameView as SameView, VaryingView as VaryingView
from .same import Word as Word
